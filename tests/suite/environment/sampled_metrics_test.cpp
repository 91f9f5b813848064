#include "suite/environment/pm_sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "suite/environment/cupti.h"
#include "suite/environment/gpu_counters.h"

namespace noisemark::suite {
namespace {

constexpr uint64_t kEach_ns = 1'000'000;

/// Makes `count` samples of one metric, each of a millisecond, after one that began long before.
std::vector<CounterSample> steady(size_t count, double percent) {
  std::vector<CounterSample> samples{{0, kEach_ns, {77}}};
  for (size_t i = 1; i <= count; ++i) {
    samples.push_back({i * kEach_ns, (i + 1) * kEach_ns, {percent}});
  }
  return samples;
}

SampledValue value_of(const std::vector<CounterSample>& samples, double window_s) {
  return summarise({{0}, {"a_counter"}}, samples, window_s).at(0);
}

TEST(Summarise, gives_the_mean_over_time_and_the_spread_without_the_first_sample) {
  auto samples = steady(100, 40);
  samples[50].percent = {80};
  samples[100].percent = {20};
  samples[100].end_ns += 9 * kEach_ns;  // ten times as long as the others
  const SampledValue value = value_of(samples, 0.109);
  // 98 samples of 40 %, one of 80 %, ten lengths of 20 %, in 109 lengths.
  EXPECT_DOUBLE_EQ(value.frac.value(), (98 * 0.4 + 0.8 + 10 * 0.2) / 109);
  EXPECT_DOUBLE_EQ(value.lowest.value(), 0.2);
  EXPECT_DOUBLE_EQ(value.highest.value(), 0.8);
  EXPECT_EQ(value.samples, 100);
  EXPECT_NEAR(value.interval_s, 1.09e-3, 1e-12);
  EXPECT_EQ(value.called, "a_counter");
  EXPECT_EQ(value.missing_reason, "");
}

TEST(Summarise, refuses_samples_of_too_little_of_the_window) {
  EXPECT_TRUE(value_of(steady(96, 40), 0.1).frac) << "the ends have no whole sample";
  const SampledValue value = value_of(steady(94, 40), 0.1);
  EXPECT_FALSE(value.frac);
  EXPECT_EQ(value.missing_reason, "samples were dropped: there are some of 94 % of the window");
  auto with_a_hole = steady(100, 40);
  with_a_hole.erase(with_a_hole.begin() + 30, with_a_hole.begin() + 50);
  EXPECT_FALSE(value_of(with_a_hole, 0.1).frac);
}

TEST(Summarise, refuses_samples_that_are_few_or_overlap) {
  EXPECT_EQ(value_of(steady(9, 40), 0.009).missing_reason, "9 samples are too few: it needs 10");
  EXPECT_EQ(value_of({}, 1).missing_reason, "0 samples are too few: it needs 10");
  auto samples = steady(100, 40);
  samples[20].begin_ns -= 1;
  EXPECT_EQ(value_of(samples, 0.1).missing_reason, "sample 20 overlaps another one in time");
  samples = steady(100, 40);
  samples[20].end_ns = samples[20].begin_ns;
  EXPECT_FALSE(value_of(samples, 0.1).frac) << "a sample of no time";
}

TEST(Summarise, refuses_what_no_share_can_be) {
  const auto with = [](double percent) {
    auto samples = steady(100, 40);
    samples[7].percent = {percent};
    return value_of(samples, 0.1);
  };
  EXPECT_FALSE(with(std::nan("")).frac);
  EXPECT_NE(with(std::nan("")).missing_reason.find("no number"), std::string::npos);
  EXPECT_FALSE(with(-1).frac);
  EXPECT_FALSE(with(106).frac);
  EXPECT_FALSE(with(std::numeric_limits<double>::infinity()).frac);
  EXPECT_EQ(with(104).highest, 1.0) << "the ends of a sample differ between parts of a GPU";
  EXPECT_EQ(value_of(steady(100, 100.4), 0.1).frac, 1.0) << "what rounding adds is all";
  EXPECT_FALSE(value_of(steady(100, 101), 0.1).frac);
  auto short_of_one = steady(100, 40);
  short_of_one[9].percent.clear();
  EXPECT_FALSE(value_of(short_of_one, 0.1).frac);
}

/// Lists the metrics of each window by their place.
std::vector<std::vector<size_t>> places(const SamplingWindows& chosen) {
  std::vector<std::vector<size_t>> all;
  for (const SamplingWindow& window : chosen.windows) all.push_back(window.metrics);
  return all;
}

using Windows = std::vector<std::vector<size_t>>;

TEST(PlanWindows, puts_what_fits_into_one_pass_into_one_window) {
  const SamplingWindows chosen =
      choose_windows([](const auto&) { return std::optional<size_t>(1); });
  EXPECT_EQ(places(chosen), (Windows{{0, 1, 2, 3, 4, 5}}));
  EXPECT_EQ(chosen.windows[0].called[1], sampled_metrics()[1].called[0])
      << "the first name is taken";
  for (const std::string& reason : chosen.missing) EXPECT_EQ(reason, "");
}

TEST(PlanWindows, opens_a_window_for_what_does_not_fit) {
  // Two at once, not more.
  const SamplingWindows chosen =
      choose_windows([](const auto& called) { return std::optional((called.size() + 1) / 2); });
  EXPECT_EQ(places(chosen), (Windows{{0, 1}, {2, 3}, {4, 5}}));
}

TEST(PlanWindows, takes_a_later_name_of_a_metric_where_a_chip_lacks_the_first) {
  const std::string first(sampled_metrics()[4].called[0]);
  const SamplingWindows chosen = choose_windows([&](const auto& called) {
    const bool lacks = std::find(called.begin(), called.end(), first) != called.end();
    return lacks ? std::nullopt : std::optional<size_t>(1);
  });
  EXPECT_EQ(chosen.windows.at(0).called.at(4), sampled_metrics()[4].called[1]);
}

TEST(PlanWindows, says_why_a_metric_is_in_none) {
  const SamplingWindows unknown =
      choose_windows([](const auto&) { return std::optional<size_t>(); });
  EXPECT_TRUE(unknown.windows.empty());
  EXPECT_EQ(unknown.missing.at(0), "this chip has no counter for it");
  const SamplingWindows wide = choose_windows([](const auto&) { return std::optional<size_t>(3); });
  EXPECT_EQ(wide.missing.at(5), "it needs 3 passes, and sampling has one");
}

TEST(SampledMetrics, have_each_a_column_of_nvmls_beside_them) {
  for (const SampledMetric& metric : sampled_metrics()) {
    EXPECT_TRUE(std::any_of(gpm_metrics().begin(), gpm_metrics().end(), [&](const GpmMetric& one) {
      return one.name == metric.gpm_name;
    })) << metric.name;
    EXPECT_EQ(metric.name, std::string(metric.gpm_name) + "_sampled");
  }
}

/// The real library's half that knows chips needs no GPU.
SamplingWindows windows_of(const std::string& chip) {
  return choose_windows(
      [&](const std::vector<std::string>& called) { return passes_on_chip(chip, called); });
}

TEST(SampledMetrics, are_counted_in_one_pass_by_hopper_and_in_few_by_others) {
  if (const Cupti cupti; !cupti.why_not().empty()) GTEST_SKIP() << cupti.why_not();
  const SamplingWindows hopper = windows_of("GH100");
  EXPECT_EQ(places(hopper), (Windows{{0, 1, 2, 3, 4, 5}}));
  for (const std::string& reason : hopper.missing) EXPECT_EQ(reason, "");
  const SamplingWindows a100 = windows_of("GA100");
  EXPECT_EQ(places(a100), (Windows{{0, 1, 2, 3, 4}}));
  EXPECT_EQ(a100.missing.at(5), "this chip has no counter for it");
  for (const char* chip : {"GA102", "AD102", "GB100", "GB202"}) {
    const SamplingWindows chosen = windows_of(chip);
    EXPECT_LE(chosen.windows.size(), 4U) << chip;
    for (const std::string& reason : chosen.missing) EXPECT_EQ(reason, "") << chip;
  }
  EXPECT_TRUE(windows_of("no such chip").windows.empty());
}

}  // namespace
}  // namespace noisemark::suite
