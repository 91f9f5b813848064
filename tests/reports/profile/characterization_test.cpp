#include "reports/profile/characterization.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "reports/profile/profile.h"

namespace noisemark::reports {
namespace {

OperatorTimes times(const char* name, int64_t self_ns, const char* kind = "operator") {
  OperatorTimes row;
  row.name = name;
  row.kind = kind;
  row.self_host_ns = self_ns;
  return row;
}

double share(const Workload& workload, std::string_view name) {
  for (const ClassShare& one : workload.classes) {
    if (one.name == name) return one.share_frac;
  }
  return -1;
}

TEST(OperatorClass, follows_from_the_name) {
  const std::pair<const char*, const char*> known[] = {
      {"aten::mkldnn_convolution", "convolution"},
      {"aten::_slow_conv2d_backward", "convolution"},
      {"aten::addmm", "product"},
      {"aten::add_", "element by element"},
      {"aten::_softmax_backward_data", "attention"},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", "attention"},
      {"aten::native_group_norm_backward", "normalization"},
      {"noisemark::rms_norm_act", "normalization"},
      {"aten::linalg_vector_norm", "sums"},
      {"aten::_foreach_norm", "sums"},
      {"aten::_foreach_lerp_", "element by element"},
      {"aten::silu_backward", "activation function"},
      {"aten::exp", "element by element"},
      {"aten::expand", "framework"},
      {"aten::exponential_", "random numbers"},
      {"aten::max_pool2d_with_indices", "resampling"},
      {"aten::maximum", "element by element"},
      {"aten::_to_copy", "movement"},
      {"aten::to", "framework"},
      {"aten::_fused_adam_", "optimizer"},
      {"aten::resolve_conj", "framework"},
      {"ConvolutionBackward0", "framework"},
      {"autograd::engine::evaluate_function: AddmmBackward0", "framework"},
      {"phase backward", "framework"},
      {"aten::fft_fft", "other"}};
  for (const auto& [name, expected] : known) EXPECT_EQ(operator_class(name), expected) << name;
}

TEST(OperatorClass, is_always_one_of_the_table) {
  Workload workload;
  add_classes({times("aten::mm", 1)}, workload);
  std::vector<std::string> all;
  for (const ClassShare& one : workload.classes) all.push_back(one.name);
  EXPECT_EQ(all.back(), "other");
  for (const char* name : {"aten::mm", "aten::_foreach_mul_", "aten::zeros", "span", "aten::?"}) {
    EXPECT_NE(std::find(all.begin(), all.end(), operator_class(name)), all.end()) << name;
  }
}

TEST(Characterization, shares_out_all_self_time_by_class) {
  Workload workload;
  add_classes(
      {times("aten::mm", 600), times("aten::mul", 200), times("phase forward", 100, "span"),
       times("aten::fft_fft", 60), times("aten::fft_ifft", 40), times("gemm", 5'000, "device")},
      workload);
  EXPECT_DOUBLE_EQ(share(workload, "product"), 0.6) << "kernels stand under their operators";
  EXPECT_DOUBLE_EQ(share(workload, "element by element"), 0.2);
  EXPECT_DOUBLE_EQ(share(workload, "framework"), 0.1);
  EXPECT_DOUBLE_EQ(share(workload, "other"), 0.1);
  const double sum =
      std::accumulate(workload.classes.begin(), workload.classes.end(), 0.0,
                      [](double so_far, const ClassShare& one) { return so_far + one.share_frac; });
  EXPECT_DOUBLE_EQ(sum, 1);
  EXPECT_EQ(workload.unclassified, (std::vector<std::string>{"aten::fft_fft", "aten::fft_ifft"}));
}

TEST(Characterization, takes_the_time_on_the_device_where_it_was_recorded) {
  std::vector<OperatorTimes> rows{times("aten::mm", 100), times("aten::mul", 900)};
  rows[0].self_device_ns = 30;
  rows[1].self_device_ns = 10;
  Workload workload;
  add_classes(rows, workload);
  EXPECT_DOUBLE_EQ(share(workload, "product"), 0.75);
}

/// Two steps from 100 and from 300 on, in each of which an operator begins after 5 and ends after
/// 25, with one within, and another ends after 60.
Recording two_steps() {
  Recording recording;
  recording.steps = 2;
  for (const int64_t begin : {100, 300}) {
    const std::tuple<std::string, int64_t, int64_t> events[] = {
        {kStepPrefix + std::to_string(begin), 0, 100},
        {"aten::convolution", 5, 25},
        {"aten::mkldnn_convolution", 8, 20},
        {"aten::add", 40, 60}};
    for (const auto& [name, start, end] : events) {
      ProfiledEvent event;
      event.name = name;
      event.kind = start == 0 ? ProfiledKind::kSpan : ProfiledKind::kOperator;
      event.start_ns = begin + start;
      event.end_ns = begin + end;
      recording.events.push_back(event);
    }
  }
  recording.memory = {{50, 1'000, 1, false}, {110, 40, 1, false},    {112, 700, 1, false},
                      {115, -700, 1, false}, {150, 30, 1, false},    {151, 9'000, 1, true},
                      {155, -40, 1, false},  {190, -30, 1, false},   {310, 65, 1, false},
                      {320, -65, 1, false},  {500, 70'000, 1, false}};
  return recording;
}

TEST(Characterization, counts_the_most_bytes_that_lived_when_an_operator_of_a_step_ended) {
  EXPECT_EQ(most_live_bytes(two_steps()), 40) << "without 700 of scratch memory within";
  Recording on_a_gpu = two_steps();
  on_a_gpu.has_device = true;
  EXPECT_EQ(most_live_bytes(on_a_gpu), 9'000);
  EXPECT_DOUBLE_EQ(mean_step_s(two_steps()), 100e-9);
}

TEST(Characterization, knows_the_most_of_an_owner_or_that_nobody_does) {
  const std::vector<MemoryCounter> counters{{1, {{"weights", 7}, {"activations", 3}}},
                                            {2, {{"weights", 7}, {"activations", 5}}},
                                            {3, {{"weights", 7}, {"activations", 1}}}};
  EXPECT_EQ(most_bytes_of(counters, "activations"), 5);
  EXPECT_EQ(most_bytes_of(counters, "inputs"), std::nullopt);
  EXPECT_EQ(most_bytes_of({}, "activations"), std::nullopt);
}

TEST(Characterization, has_the_operations_for_a_byte_of_weights_and_of_all) {
  Characterization network{1'000, 4'000, {}};
  Workload training;
  training.name = "training";
  training.batch = 16;
  training.time_s = 0.25;
  training.activation_missing = "a step allocates otherwise";
  add_work({{{"aten::mm", "", "float32", 9'000, 5'000, 0}},
            {{"aten::add", "", "float32", 1'000, 3'000, 0}}},
           training);
  add_classes({times("aten::mm", 97), times("aten::fft_fft", 3)}, training);
  Workload sampling = training;
  sampling.name = "sampling";
  sampling.batch = 128;
  sampling.activation_bytes = 3 << 20;
  sampling.activation_missing = "";
  sampling.classes.clear();
  sampling.unclassified.clear();
  add_classes({times("aten::mm", 997), times("aten::fft_fft", 3)}, sampling);
  network.workloads = {training, sampling};
  const std::string text = characterization_section(network);
  const std::string row =
      "| training |    16 |   250.000 |                      \u2013 | 0.000 |                      "
      "2.5 |    1.25 |";
  EXPECT_NE(text.find(row), std::string::npos) << "10,000 / 4,000 and 10,000 / 8,000:\n" << text;
  EXPECT_NE(text.find("3.00 |"), std::string::npos) << text;
  EXPECT_NE(text.find("- Live activations of training 16: a step allocates otherwise\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("- training 16: more than 1 % of the time is in no class: aten::fft"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("- sampling 128: more"), std::string::npos) << "0.3 %:\n" << text;
  EXPECT_EQ(characterization_section({}), "");
}

}  // namespace
}  // namespace noisemark::reports
