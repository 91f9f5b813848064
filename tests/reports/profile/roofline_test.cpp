#include "reports/profile/roofline.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "reports/base/error.h"

namespace noisemark::reports {
namespace {

constexpr int64_t kMs = 1'000'000;

ProfiledEvent operator_at(const char* name, int64_t start_ms, int64_t end_ms, uint64_t id) {
  ProfiledEvent event;
  event.name = name;
  event.start_ns = start_ms * kMs;
  event.end_ns = end_ms * kMs;
  event.id = id;
  return event;
}

/// A step of 100 ms on the host: a product of 60 ms by an operator within another one, then a copy
/// of 20 ms.
Recording recorded() {
  Recording recording;
  recording.steps = 1;
  ProfiledEvent step = operator_at("ProfilerStep#0", 0, 100, 1);
  step.kind = ProfiledKind::kSpan;
  recording.events = {operator_at("aten::copy_", 70, 90, 4), operator_at("aten::linear", 5, 66, 2),
                      operator_at("aten::addmm", 5, 65, 3), step};
  return recording;
}

/// 3 GFLOP on 10 MB, and 100 MB.
StepWork known_work() {
  return {{{"aten::linear", "", "", 0, 0, 0},
           {"aten::addmm", "[8, 8]", "float32", 3'000'000'000, 10'000'000, 10'000'000},
           {"aten::copy_", "[9]", "float32", 25'000'000, 100'000'000, 100'000'000}}};
}

const std::vector<ProductPeak> kProducts = {{"float32", 1, 50e9, ""}, {"float32", 2, 100e9, ""}};
const std::vector<MemoryPeak> kMemory = {{2, 1'000'000, 100e9}, {2, 256'000'000, 10e9}};

TEST(Roofline, puts_the_least_time_of_each_operator_beside_the_measured_one) {
  const Roofline roofline = make_roofline(recorded(), known_work(), kProducts, kMemory);
  ASSERT_EQ(roofline.operators.size(), 2U);
  const RoofRow& product = roofline.operators.front();
  EXPECT_EQ(product.name, "aten::addmm");
  EXPECT_TRUE(product.compute_bound);
  EXPECT_DOUBLE_EQ(product.roof_s, 0.03) << "3 GFLOP at 100 GFLOP/s";
  EXPECT_DOUBLE_EQ(product.time_s, 0.06);
  const RoofRow& copy = roofline.operators.back();
  EXPECT_FALSE(copy.compute_bound);
  EXPECT_DOUBLE_EQ(copy.roof_s, 0.01) << "100 MB at 10 GB/s: they fit no smaller working set";
  EXPECT_DOUBLE_EQ(roofline.ideal_s, 0.04);
  EXPECT_DOUBLE_EQ(roofline.counted_s, 0.08);
  EXPECT_DOUBLE_EQ(roofline.step_s, 0.1);
  EXPECT_TRUE(above_roof(roofline).empty());
  const std::string text = roofline_section(roofline, 0.08);
  EXPECT_NE(text.find("a step would take 40.00 ms, **50.0 %** of the 80.00 ms"), std::string::npos)
      << text;
  EXPECT_NE(text.find("Of single shapes the most is to be won at the first row, aten::addmm, which "
                      "compute bounds"),
            std::string::npos)
      << text;
}

std::string only_above_roof(const Roofline& roofline) {
  const std::vector<std::string> above = above_roof(roofline);
  EXPECT_EQ(above.size(), 1U);
  return above.empty() ? "" : above.front();
}

/// A row of 10 ms that two peaks may bound: products of 100 GFLOP/s, and memory of 10 GB/s.
RoofRow row_of(const char* name, bool compute_bound, double of_roof) {
  const double roof_s = of_roof * 0.01;
  return {name, "[8]", "float32", 1, 0.01, roof_s * 100e9, roof_s * 10e9, roof_s, compute_bound};
}

/// A step of five operators below their roofs, of which the first is `of_roof` times as fast.
Roofline with_first_at(double of_roof, bool compute_bound = true) {
  Roofline roofline;
  roofline.operators = {
      row_of("aten::convolution", compute_bound, of_roof),
      row_of("aten::convolution_backward", compute_bound, of_roof),
      row_of("aten::addmm", compute_bound, 0.8), row_of("aten::mm", compute_bound, 0.7),
      row_of("aten::bmm", compute_bound, 0.6),
      // These are above another peak, which tells nothing of that one.
      row_of("aten::add_", !compute_bound, 1.4), row_of("aten::mul", !compute_bound, 1.3)};
  return roofline;
}

TEST(Roofline, names_the_formula_of_an_operator_above_the_roof_below_which_others_stay) {
  for (const double of_roof : {1.06, 2.0}) {
    EXPECT_EQ(above_roof(with_first_at(of_roof)).front(),
              fmt::format("aten::convolution [8] ({:.1f} % of its roof, whose peak was measured 3 "
                          "times: the formula of its operations is wrong: two for each "
                          "multiplication with an addition)",
                          100 * of_roof));
    EXPECT_EQ(above_roof(with_first_at(of_roof, false)).front(),
              fmt::format("aten::convolution [8] ({:.1f} % of its roof, whose peak was measured 3 "
                          "times: the formula of its bytes is wrong: each input read and each "
                          "output written once)",
                          100 * of_roof));
  }
  Roofline roofline = with_first_at(2);
  roofline.operators.erase(roofline.operators.begin());
  roofline.operators.front().name = "aten::silu_backward";
  EXPECT_TRUE(above_roof(roofline).front().ends_with("wrong: what it does to each element)"));
  EXPECT_NE(roofline_section(with_first_at(2), 0.08).find("\n- Above its roof: aten::convolution"),
            std::string::npos);
  EXPECT_EQ(above_roof(with_first_at(1.04)).size(), 2U) << "the two of the other peak";
}

TEST(Roofline, names_the_peak_where_other_operators_that_it_bounds_are_above_it_too) {
  const Roofline roofline = with_first_at(0.9);
  ASSERT_EQ(above_roof(roofline).size(), 2U);
  EXPECT_EQ(above_roof(roofline).front(),
            "aten::add_ [8] (140.0 % of its roof, whose peak was measured 3 times: the peak of "
            "memory is too low, for others that it bounds are above it too)");
  EXPECT_TRUE(has_low_peak(roofline, roofline.operators.back()));
  Roofline two_of_four = with_first_at(1.2);
  two_of_four.operators[2].roof_s *= 1.4;
  two_of_four.operators[2].flop *= 1.4;
  EXPECT_TRUE(above_roof(two_of_four)
                  .front()
                  .ends_with("the peak of float32 products is too low, for others that it bounds "
                             "are above it too)"));
}

TEST(Roofline, names_both_where_no_other_operator_tells_the_formula_from_the_peak) {
  StepWork work = known_work();
  work.front()[1].flops *= 4;  // 120 ms at the peak, and it took 60
  EXPECT_EQ(only_above_roof(make_roofline(recorded(), work, kProducts, kMemory)),
            "aten::addmm [8, 8] (200.0 % of its roof, whose peak was measured 3 times: the formula "
            "of its operations is wrong: two for each multiplication with an addition; or the peak "
            "of float32 products is too low, which bounds no other operator)");
}

TEST(Roofline, takes_the_time_of_a_device_from_all_that_was_launched_within_the_operator) {
  Recording recording = recorded();
  recording.has_device = true;
  ProfiledEvent kernel = operator_at("gemm", 200, 231, 0);
  kernel.kind = ProfiledKind::kWork;
  kernel.on_device = true;
  kernel.launched_by = 3;
  recording.events.push_back(kernel);
  const Roofline roofline = make_roofline(recording, known_work(), kProducts, kMemory);
  ASSERT_EQ(roofline.operators.size(), 1U) << "the copy launched nothing";
  EXPECT_DOUBLE_EQ(roofline.operators.front().time_s, 0.031);
}

TEST(Roofline, leaves_out_an_operator_that_is_not_called_as_often_in_both) {
  StepWork work = known_work();
  work.front()[2].name = "aten::add";
  const Roofline roofline = make_roofline(recorded(), work, kProducts, kMemory);
  EXPECT_EQ(roofline.left_out, (std::vector<std::string>{"aten::add", "aten::copy_"}));
  ASSERT_EQ(roofline.operators.size(), 1U);
  EXPECT_EQ(roofline.operators.front().name, "aten::addmm");
  EXPECT_NE(roofline_section(roofline, 0.08).find("left out: aten::add, aten::copy"),
            std::string::npos);
}

TEST(Roofline, is_refused_where_the_steps_use_different_numbers_of_threads) {
  StepWork work = known_work();
  work.emplace_back();
  EXPECT_THROW((void)make_roofline(recorded(), work, kProducts, kMemory), Error);
}

TEST(Roofline, plots_the_operators_under_two_roofs_with_what_each_is) {
  const auto plot = roofline_plot(make_roofline(recorded(), known_work(), kProducts, kMemory));
  ASSERT_TRUE(plot);
  EXPECT_NE(plot->data.find("\n300 50 \"aten::addmm [8, 8]: 60.000 ms of a step, 50.0 % of its "
                            "roof, bound by compute\"\n"),
            std::string::npos)
      << "300 FLOP per byte, 50 GFLOP/s:\n"
      << plot->data;
  EXPECT_NE(plot->data.find("\n\n\n0.1 10\n1 100\n600 100\n"), std::string::npos)
      << "at 100 GB/s and 100 GFLOP/s:\n"
      << plot->data;
  EXPECT_TRUE(plot->data.ends_with("\n\n\n0.1 1\n10 100\n600 100\n")) << "at 10 GB/s";
}

TEST(Roofline, labels_three_places_or_more_of_both_axes) {
  const auto plot = roofline_plot(make_roofline(recorded(), known_work(), kProducts, kMemory));
  for (const char* axis : {"set xtics (", "set ytics ("}) {
    const size_t begin = plot->script.find(axis);
    ASSERT_NE(begin, std::string::npos) << plot->script;
    const std::string ticks = plot->script.substr(begin, plot->script.find(')', begin) - begin);
    EXPECT_GE(std::count(ticks.begin(), ticks.end(), ','), 2) << ticks;
  }
}

/// recorded(), which begins with 4 ms of the data's phase and a copy of 2 ms within.
Recording recorded_with_data() {
  Recording recording = recorded();
  ProfiledEvent span = operator_at("phase data", 0, 4, 5);
  span.kind = ProfiledKind::kSpan;
  recording.events.push_back(span);
  recording.events.push_back(operator_at("aten::copy_", 1, 3, 6));
  return recording;
}

StepWork work_with_data() {
  StepWork work = known_work();
  work.front().insert(work.front().begin(),
                      {"aten::copy_", "[1]", "float32", 0, 5'000'000, 256'000'000});
  return work;
}

TEST(StepModel, shares_the_step_out_by_what_bounds_it) {
  const Roofline roofline =
      make_roofline(recorded_with_data(), work_with_data(), kProducts, kMemory);
  const auto part = [&](const char* name) {
    return *std::find_if(roofline.parts.begin(), roofline.parts.end(),
                         [&](const StepPart& one) { return one.name == name; });
  };
  EXPECT_DOUBLE_EQ(part("data").time_s, 0.004) << "the whole phase";
  EXPECT_DOUBLE_EQ(part("data").roof_s, 0.0005) << "5 MB at 10 GB/s";
  EXPECT_DOUBLE_EQ(part("compute").time_s, 0.06);
  EXPECT_DOUBLE_EQ(part("compute").roof_s, 0.03);
  EXPECT_DOUBLE_EQ(part("memory").time_s, 0.02) << "without the copy of the data";
  EXPECT_DOUBLE_EQ(part("memory").roof_s, 0.01);
  EXPECT_DOUBLE_EQ(part("communication").time_s, 0);
  EXPECT_FALSE(part("communication").missing.empty());
  double sum_s = 0;
  for (const StepPart& one : roofline.parts) sum_s += one.time_s;
  EXPECT_DOUBLE_EQ(sum_s, roofline.step_s);
}

TEST(StepModel, stands_beside_the_measured_step) {
  const std::string text =
      step_model_section(make_roofline(recorded_with_data(), work_with_data(), kProducts, kMemory));
  EXPECT_NE(text.find("a step would take 40.50 ms, **40.5 %** of the 100.00 ms that a profiled one "
                      "takes; at 70.0 % of them, as the study assumes, 57.86 ms. Its longest part "
                      "is compute by the model, and compute as it was measured."),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\n- communication: the profiled process trains alone; the report of a run "
                      "by ranks says what it took\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(step_model_section({}), "");
}

TEST(StepModel, knows_no_speed_of_the_link_to_a_device) {
  Recording recording = recorded_with_data();
  recording.has_device = true;
  const Roofline roofline = make_roofline(recording, work_with_data(), kProducts, kMemory);
  EXPECT_EQ(roofline.parts.front().name, "data");
  EXPECT_EQ(roofline.parts.front().roof_s, 0);
  EXPECT_FALSE(roofline.parts.front().missing.empty());
}

TEST(Roofline, has_no_plot_without_a_peak_or_an_operator_below_it) {
  EXPECT_FALSE(roofline_plot({}));
  EXPECT_FALSE(roofline_plot(make_roofline(recorded(), known_work(), {}, kMemory)));
  EXPECT_FALSE(roofline_plot(make_roofline(recorded(), known_work(), kProducts, {})));
}

}  // namespace
}  // namespace noisemark::reports
