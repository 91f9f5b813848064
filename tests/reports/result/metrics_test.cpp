#include "reports/result/metrics.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <stdexcept>
#include <string_view>

#include "reports/base/quantity.h"
#include "reports/result/gate.h"
#include "tests/reports/golden_file.h"

namespace noisemark::reports {
namespace {

Result ten_steps() {
  Result result;
  result.protocol.batch = 8;
  result.protocol.warmup_steps = 2;
  result.samples.step_s = {9, 9, 1, 2, 2, 2, 2, 2, 2, 4};
  return result;
}

TEST(Metrics, throughput_is_the_batch_over_the_median_step_after_the_warmup) {
  Result result = ten_steps();
  result.metrics = derive_metrics(result);
  const Metric* rate = find_metric(result, "images_per_s");
  ASSERT_NE(rate, nullptr);
  EXPECT_EQ(rate->value, 4.0);
  EXPECT_EQ(rate->n, 8);
  ASSERT_TRUE(rate->ci95);
  EXPECT_EQ(rate->ci95->low, 2.0) << "the slowest step bounds the rate from below";
  EXPECT_EQ(rate->ci95->high, 8.0);
}

TEST(Metrics, what_could_not_be_had_is_listed_with_its_reason) {
  Result result = ten_steps();
  result.memory.missing_reason = "left out";
  result.samples.step_s.clear();
  result.metrics = derive_metrics(result);
  for (const char* name : {"images_per_s", "peak_bytes", "val_loss"}) {
    const Metric* metric = find_metric(result, name);
    ASSERT_NE(metric, nullptr) << name;
    EXPECT_FALSE(metric->value) << name;
    EXPECT_FALSE(metric->missing_reason.empty()) << name;
  }
}

TEST(Metrics, parameters_of_a_run_that_ended_before_training_are_missing_and_not_none) {
  Result result = ten_steps();
  result.metrics = derive_metrics(result);
  const Metric* parameters = find_metric(result, "parameters");
  ASSERT_NE(parameters, nullptr);
  EXPECT_FALSE(parameters->value);
  EXPECT_EQ(parameters->missing_reason, "training did not begin");
  result.utilization.parameters = 12;
  result.metrics = derive_metrics(result);
  EXPECT_EQ(find_metric(result, "parameters")->value, 12.0);
}

TEST(Metrics, steps_that_loss_scaling_skipped_are_listed_where_there_is_loss_scaling) {
  Result result = ten_steps();
  result.metrics = derive_metrics(result, {metric_named("skipped_steps", {3})});
  ASSERT_NE(find_metric(result, "skipped_steps"), nullptr);
  EXPECT_EQ(find_metric(result, "skipped_steps")->value, 3.0);
  result.metrics = derive_metrics(result);
  EXPECT_EQ(find_metric(result, "skipped_steps"), nullptr);
}

TEST(Metrics, columns_of_a_gpu_are_listed_where_there_is_one) {
  Result result = ten_steps();
  result.metrics = derive_metrics(result);
  EXPECT_EQ(find_metric(result, "gpu_power"), nullptr);
  DeviceColumn power;
  power.name = "power";
  power.unit = "W";
  power.value = 600;
  power.readings = 50;
  DeviceColumn energy;
  energy.name = "energy_per_image";
  energy.unit = "J";
  energy.missing_reason = "not counted";
  result.utilization.device_use.columns = {power, energy};
  result.metrics = derive_metrics(result);
  EXPECT_EQ(find_metric(result, "gpu_power")->value, 600.0);
  EXPECT_EQ(find_metric(result, "gpu_power")->n, 50);
  const Metric* joules = find_metric(result, "gpu_energy_per_image");
  EXPECT_EQ(joules->missing_reason, "not counted");
  EXPECT_EQ(joules->direction, Direction::kLower);
}

TEST(Metrics, excess_loss_is_that_of_the_last_evaluation) {
  Result result = ten_steps();
  result.quality.evaluations.resize(2);
  result.quality.evaluations[0].excess_frac = 3.0;
  result.quality.evaluations[1].excess_frac = 0.5;
  result.quality.evaluations[1].step = result.protocol.steps = 10;
  result.metrics = derive_metrics(result);
  EXPECT_EQ(find_metric(result, "excess_loss")->value, 0.5);
}

TEST(Metrics, losses_of_a_training_that_was_cut_short_are_missing_with_the_reason) {
  const auto loss_of = [](std::vector<int64_t> evaluated, const char* name) {
    Result result = ten_steps();
    result.protocol.steps = 10;
    for (const int64_t step : evaluated) {
      result.quality.evaluations.emplace_back();
      result.quality.evaluations.back().step = step;
      result.quality.evaluations.back().excess_frac = 3.0;
    }
    result.metrics = derive_metrics(result);
    return *find_metric(result, name);
  };
  for (const char* name : {"val_loss", "val_loss_weighted", "excess_loss"}) {
    EXPECT_FALSE(loss_of({0}, name).value) << name;
    EXPECT_EQ(loss_of({0}, name).missing_reason,
              "the last evaluation was at the start, and the training ended after step 10");
    EXPECT_FALSE(loss_of({0, 8}, name).value) << name;
    EXPECT_EQ(loss_of({0, 8}, name).missing_reason,
              "the last evaluation was after step 8, and the training ended after step 10");
    EXPECT_TRUE(loss_of({0, 8, 10}, name).value) << name;
  }
  EXPECT_TRUE(loss_of({0}, "val_loss_initial").value);
}

TEST(Metrics, have_one_row_each) {
  std::set<std::string_view> names;
  for (const MetricRow& row : metric_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.unit.empty()) << row.name;
    EXPECT_FALSE(row.summary.empty()) << row.name;
    EXPECT_EQ(row.rule == MetricRule::kGated, row.gate_margin_frac > 0) << row.name;
    EXPECT_FALSE(row.in_sweeps && row.column.empty()) << row.name;
  }
}

/// format_quantity() writes other words for these, or none.
TEST(Metrics, have_units_that_pages_keep_beside_their_numbers) {
  const std::set<std::string_view> converted = {"bytes", "frac", "count", "1", "its column's"};
  for (const MetricRow& row : metric_table()) {
    EXPECT_TRUE(is_unit(row.unit) || converted.contains(row.unit)) << row.name;
  }
}

TEST(Metrics, are_found_by_their_name_before_a_pattern_that_fits) {
  EXPECT_EQ(find_metric_row("kid")->name, "kid");
  EXPECT_EQ(find_metric_row("cifarnet_kernel_distance")->name, "*_kernel_distance");
  EXPECT_EQ(find_metric_row("gpu_power")->name, "gpu_*");
  EXPECT_EQ(find_metric_row("nonsense"), nullptr);
}

TEST(Metrics, that_nobody_knows_cannot_be_given) {
  EXPECT_THROW((void)metric_named("nonsense", {}), std::logic_error);
  Metric unknown;
  unknown.name = "nonsense";
  EXPECT_THROW((void)derive_metrics(ten_steps(), {unknown}), std::logic_error);
}

TEST(Metrics, are_documented_as_the_table_has_them) {
  test::expect_golden(
      std::filesystem::path(NOISEMARK_TEST_FOLDER) / "../../reports/result/metrics.md",
      metrics_markdown());
}

}  // namespace
}  // namespace noisemark::reports
