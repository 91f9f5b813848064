#include "suite/run/metrics.h"

#include <gtest/gtest.h>

#include "reports/gate.h"

namespace noisemark::suite {
namespace {

reports::Result ten_steps() {
  reports::Result result;
  result.protocol.batch = 8;
  result.protocol.warmup_steps = 2;
  result.samples.step_s = {9, 9, 1, 2, 2, 2, 2, 2, 2, 4};
  return result;
}

TEST(Metrics, throughput_is_the_batch_over_the_median_step_after_the_warmup) {
  reports::Result result = ten_steps();
  result.metrics = derive_metrics(result);
  const reports::Metric* rate = reports::find_metric(result, "images_per_s");
  ASSERT_NE(rate, nullptr);
  EXPECT_EQ(rate->value, 4.0);
  EXPECT_EQ(rate->n, 8);
  ASSERT_TRUE(rate->ci95);
  EXPECT_EQ(rate->ci95->low, 2.0) << "the slowest step bounds the rate from below";
  EXPECT_EQ(rate->ci95->high, 8.0);
}

TEST(Metrics, what_could_not_be_had_is_listed_with_its_reason) {
  reports::Result result = ten_steps();
  result.memory.missing_reason = "left out";
  result.samples.step_s.clear();
  result.metrics = derive_metrics(result);
  for (const char* name : {"images_per_s", "peak_bytes", "val_loss"}) {
    const reports::Metric* metric = reports::find_metric(result, name);
    ASSERT_NE(metric, nullptr) << name;
    EXPECT_FALSE(metric->value) << name;
    EXPECT_FALSE(metric->missing_reason.empty()) << name;
  }
}

TEST(Metrics, parameters_of_a_run_that_ended_before_training_are_missing_and_not_none) {
  reports::Result result = ten_steps();
  result.metrics = derive_metrics(result);
  const reports::Metric* parameters = reports::find_metric(result, "parameters");
  ASSERT_NE(parameters, nullptr);
  EXPECT_FALSE(parameters->value);
  EXPECT_EQ(parameters->missing_reason, "training did not begin");
  result.utilization.parameters = 12;
  result.metrics = derive_metrics(result);
  EXPECT_EQ(reports::find_metric(result, "parameters")->value, 12.0);
}

TEST(Metrics, steps_that_loss_scaling_skipped_are_listed_where_there_is_loss_scaling) {
  reports::Result result = ten_steps();
  result.metrics = derive_metrics(result, 3);
  ASSERT_NE(reports::find_metric(result, "skipped_steps"), nullptr);
  EXPECT_EQ(reports::find_metric(result, "skipped_steps")->value, 3.0);
  result.metrics = derive_metrics(result);
  EXPECT_EQ(reports::find_metric(result, "skipped_steps"), nullptr);
}

TEST(Metrics, columns_of_a_gpu_are_listed_where_there_is_one) {
  reports::Result result = ten_steps();
  result.metrics = derive_metrics(result);
  EXPECT_EQ(reports::find_metric(result, "gpu_power"), nullptr);
  reports::DeviceColumn power;
  power.name = "power";
  power.unit = "W";
  power.value = 600;
  power.readings = 50;
  reports::DeviceColumn energy;
  energy.name = "energy_per_image";
  energy.unit = "J";
  energy.missing_reason = "not counted";
  result.utilization.device_use.columns = {power, energy};
  result.metrics = derive_metrics(result);
  EXPECT_EQ(reports::find_metric(result, "gpu_power")->value, 600.0);
  EXPECT_EQ(reports::find_metric(result, "gpu_power")->n, 50);
  const reports::Metric* joules = reports::find_metric(result, "gpu_energy_per_image");
  EXPECT_EQ(joules->missing_reason, "not counted");
  EXPECT_EQ(joules->direction, reports::Direction::kLower);
}

TEST(Metrics, excess_loss_is_that_of_the_last_evaluation) {
  reports::Result result = ten_steps();
  result.quality.evaluations.resize(2);
  result.quality.evaluations[0].excess_frac = 3.0;
  result.quality.evaluations[1].excess_frac = 0.5;
  result.metrics = derive_metrics(result);
  EXPECT_EQ(reports::find_metric(result, "excess_loss")->value, 0.5);
}

TEST(Metrics, energy_is_that_of_the_counters_or_missing_with_their_reason) {
  const reports::Metric known = energy_metric({12.5, "", "package-0"});
  EXPECT_EQ(known.name, "energy_j");
  EXPECT_EQ(known.unit, "J");
  EXPECT_EQ(known.value, 12.5);
  EXPECT_TRUE(known.method.starts_with("package-0")) << known.method;
  const reports::Metric unknown = energy_metric({std::nullopt, "to root alone", ""});
  EXPECT_EQ(unknown.value, std::nullopt);
  EXPECT_EQ(unknown.missing_reason, "to root alone");
}

}  // namespace
}  // namespace noisemark::suite
