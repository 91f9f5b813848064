#include "tests/suite/probes/column_calibration.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "suite/environment/pm_sampling.h"
#include "tests/suite/probes/fake_counters.h"
#include "tests/suite/probes/fake_sampled.h"

namespace noisemark::suite {
namespace {

using Values = std::map<std::string, double>;

CalibrationRow row(CalibrationLoad load, const Values& values) {
  CalibrationRow result;
  result.load = load;
  for (const auto& [name, value] : values) {
    reports::DeviceColumn column;
    column.name = name;
    column.unit = "frac";
    column.value = value;
    column.source = "a test";
    result.use.columns.push_back(column);
  }
  return result;
}

/// `values` of NVML, and the same by sampling, two tenths of a point higher.
CalibrationRow with_both(CalibrationLoad load, Values values) {
  for (const SampledMetric& metric : sampled_metrics()) {
    values[std::string(metric.name)] = values.at(std::string(metric.gpm_name)) + 0.002;
  }
  return row(load, values);
}

std::vector<CalibrationRow> good_rows() {
  return {with_both(CalibrationLoad::kIdle, {{"sm_active", 0.0},
                                             {"sm_occupancy", 0.0},
                                             {"tensor_active", 0.0},
                                             {"dram_active", 0.002},
                                             {"fp32_active", 0.0},
                                             {"fp16_active", 0.0},
                                             {"graphics_active", 0.0}}),
          with_both(CalibrationLoad::kCopy, {{"sm_active", 0.97},
                                             {"sm_occupancy", 0.8},
                                             {"tensor_active", 0.0},
                                             {"dram_active", 0.91},
                                             {"fp32_active", 0.01},
                                             {"fp16_active", 0.0},
                                             {"device_busy", 0.99},
                                             {"graphics_active", 0.995}}),
          with_both(CalibrationLoad::kProduct, {{"sm_active", 0.99},
                                                {"sm_occupancy", 0.2},
                                                {"tensor_active", 0.93},
                                                {"dram_active", 0.2},
                                                {"fp32_active", 0.02},
                                                {"fp16_active", 0.0},
                                                {"device_busy", 0.985},
                                                {"graphics_active", 1.0}}),
          with_both(CalibrationLoad::kHalfProduct, {{"sm_active", 0.99},
                                                    {"sm_occupancy", 0.2},
                                                    {"tensor_active", 0.92},
                                                    {"tensor_half_active", 0.92},
                                                    {"dram_active", 0.2},
                                                    {"fp32_active", 0.02},
                                                    {"fp16_active", 0.001},
                                                    {"device_busy", 0.985},
                                                    {"graphics_active", 1.0}}),
          with_both(CalibrationLoad::kFloatProduct, {{"sm_active", 0.99},
                                                     {"sm_occupancy", 0.2},
                                                     {"tensor_active", 0.0},
                                                     {"dram_active", 0.05},
                                                     {"fp32_active", 0.85},
                                                     {"fp16_active", 0.0},
                                                     {"device_busy", 0.985},
                                                     {"graphics_active", 1.0}})};
}

reports::DeviceColumn& column_in(CalibrationRow& row, const std::string& name) {
  return *std::find_if(row.use.columns.begin(), row.use.columns.end(),
                       [&](const auto& one) { return one.name == name; });
}

/// Returns what does not hold, or is not known, in the checks' own words.
std::vector<std::string> not_holding(const std::vector<CalibrationRow>& rows) {
  std::vector<std::string> words;
  for (const CalibrationCheck& check : check_columns(rows)) {
    if (!check.holds.value_or(false)) words.push_back(check.what + ": " + check.found);
  }
  return words;
}

TEST(ColumnCalibration, finds_nothing_in_columns_that_say_what_is_known) {
  EXPECT_EQ(not_holding(good_rows()), std::vector<std::string>{});
  // 16 bounds, two sources of busy time under four loads, and of every share under five.
  EXPECT_EQ(check_columns(good_rows()).size(), 16U + 4U + 5U);
}

TEST(ColumnCalibration, catches_a_column_that_is_another) {
  auto rows = good_rows();
  for (const std::string by : {"", "_sampled"}) {
    std::swap(column_in(rows[1], "dram_active" + by).value,
              column_in(rows[1], "tensor_active" + by).value);
  }
  EXPECT_EQ(not_holding(rows),
            (std::vector<std::string>{"copy: dram_active is at least 80.0 %: 0.0 %",
                                      "copy: tensor_active is at most 1.0 %: 91.0 %"}));
}

TEST(ColumnCalibration, catches_a_counter_that_runs_while_nothing_does) {
  auto rows = good_rows();
  column_in(rows[0], "sm_active").value = column_in(rows[0], "sm_active_sampled").value = 0.5;
  EXPECT_EQ(not_holding(rows),
            (std::vector<std::string>{"idle: sm_active is at most 1.0 %: 50.0 %"}));
}

TEST(ColumnCalibration, catches_two_sources_of_busy_time_that_differ) {
  auto rows = good_rows();
  column_in(rows[2], "device_busy").value = 0.9;
  EXPECT_EQ(not_holding(rows),
            (std::vector<std::string>{"product: device_busy is within 2.0 % of graphics_active: "
                                      "90.0 % and 100.0 %"}));
}

/// Each bound of the loads for FP32 and FP16 turned by one value.
TEST(ColumnCalibration, catches_pipes_that_are_others_than_their_load_uses) {
  struct Wrong {
    size_t row;
    const char* column;
    double value;
    const char* words;
  };
  for (const Wrong& wrong :
       {Wrong{4, "fp32_active", 0.2, "fp32 product: fp32_active is at least 50.0 %: 20.0 %"},
        Wrong{4, "tensor_active", 0.6, "fp32 product: tensor_active is at most 1.0 %: 60.0 %"},
        Wrong{4, "sm_active", 0.4, "fp32 product: sm_active is at least 80.0 %: 40.0 %"},
        Wrong{4, "fp16_active", 0.3, "fp32 product: fp16_active is at most 1.0 %: 30.0 %"},
        Wrong{3, "tensor_active", 0.3, "fp16 product: tensor_active is at least 80.0 %: 30.0 %"},
        Wrong{3, "tensor_half_active", 0.0,
              "fp16 product: tensor_half_active is at least 80.0 %: 0.0 %"},
        Wrong{3, "fp16_active", 0.9, "fp16 product: fp16_active is at most 1.0 %: 90.0 %"},
        Wrong{0, "fp32_active", 0.1, "idle: fp32_active is at most 1.0 %: 10.0 %"},
        Wrong{0, "fp16_active", 0.1, "idle: fp16_active is at most 1.0 %: 10.0 %"}}) {
    auto rows = good_rows();
    column_in(rows[wrong.row], wrong.column).value = wrong.value;
    const auto words = not_holding(rows);
    EXPECT_EQ(std::count(words.begin(), words.end(), wrong.words), 1) << wrong.words;
  }
}

TEST(ColumnCalibration, catches_sampled_columns_that_differ_from_nvmls_and_names_the_worst) {
  auto rows = good_rows();
  column_in(rows[1], "dram_active_sampled").value = 0.88;
  column_in(rows[1], "sm_active_sampled").value = 0.92;
  EXPECT_EQ(not_holding(rows), (std::vector<std::string>{
                                   "copy: sampled columns are within 2.0 % of NVML's: sm_active: "
                                   "97.0 % and 92.0 %"}));
}

TEST(ColumnCalibration, holds_against_no_source_that_it_defines_a_share_otherwise) {
  auto rows = good_rows();
  column_in(rows[4], "fp32_active_sampled").value = 0.99;  // the load's integers count too
  column_in(rows[2], "dram_active_sampled").value = 0.25;  // the multiprocessors' clock is lower
  EXPECT_EQ(not_holding(rows), std::vector<std::string>{});
  column_in(rows[1], "dram_active_sampled").value = 0.95;
  column_in(rows[2], "tensor_active_sampled").value = 0.9;
  EXPECT_EQ(not_holding(rows),
            (std::vector<std::string>{
                "copy: sampled columns are within 2.0 % of NVML's: dram_active: 91.0 % and 95.0 %",
                "product: sampled columns are within 2.0 % of NVML's: tensor_active: 93.0 % and "
                "90.0 %"}));
}

TEST(ColumnCalibration, compares_no_sampled_column_with_one_that_is_missing) {
  auto rows = good_rows();
  for (const SampledMetric& metric : sampled_metrics()) {
    column_in(rows[1], std::string(metric.name)).value.reset();
    column_in(rows[1], std::string(metric.name)).missing_reason = "no permission";
  }
  EXPECT_EQ(not_holding(rows), (std::vector<std::string>{
                                   "copy: sampled columns are within 2.0 % of NVML's: sm_active: "
                                   "97.0 % and no permission"}));
  for (const CalibrationCheck& check : check_columns(rows)) EXPECT_NE(check.holds, false);
  column_in(rows[2], "sm_occupancy_sampled").value.reset();
  for (const CalibrationCheck& check : check_columns({rows[2]})) {
    EXPECT_EQ(check.holds, true) << "the others are compared";
  }
}

TEST(ColumnCalibration, judges_nothing_by_a_column_that_is_missing) {
  auto rows = good_rows();
  column_in(rows[2], "tensor_active").value.reset();
  column_in(rows[2], "tensor_active").missing_reason = "no permission";
  const auto checks = check_columns(rows);
  EXPECT_EQ(std::count_if(checks.begin(), checks.end(),
                          [](const CalibrationCheck& check) { return !check.holds; }),
            1);
  EXPECT_NE(calibration_text(rows, checks).find("| no permission "), std::string::npos);
}

TEST(ColumnCalibration, says_all_of_it_in_words) {
  auto rows = good_rows();
  column_in(rows[0], "sm_active").value = 0.5;
  const std::string text = calibration_text(rows, check_columns(rows));
  EXPECT_NE(text.find("| **does not hold** |"), std::string::npos) << text;
  EXPECT_NE(text.find("| holds "), std::string::npos) << text;
  EXPECT_EQ(calibration_text({}, {}).find("holds"), std::string::npos);
}

TEST(MeasureLoad, makes_every_load_and_reads_beside_it) {
  test::FakeCounters counters;
  test::FakeSampled sampled(2);
  counters.reading.power_w = 300;
  LoadSize small;
  small.product = 64;
  small.copy_bytes = 1 << 12;
  small.profiled_s = 0.001;
  auto rows =
      measure_loads(calibration_loads(), c10::Device(c10::kCPU), {counters, sampled}, 0.01, small);
  ASSERT_EQ(rows.size(), calibration_loads().size());
  for (size_t i = 0; i < rows.size(); ++i) {
    CalibrationRow& made = rows[i];
    EXPECT_EQ(made.load, calibration_loads()[i]);
    EXPECT_GE(made.use.window_s, 0.01);
    EXPECT_GT(made.use.steps, 0);
    EXPECT_EQ(column_in(made, "device_busy").missing_reason,
              "the profiler saw nothing on the device")
        << "a CPU runs no kernel";
    EXPECT_DOUBLE_EQ(column_in(made, "fp32_active_sampled").value.value(), 0.5);
    EXPECT_GE(column_in(made, "fp32_active_sampled").window_s, 0.01);
  }
  EXPECT_EQ(counters.windows, 5);
  EXPECT_EQ(sampled.begun, 10);
}

TEST(MeasureLoad, leaves_tf32_as_it_was) {
  test::FakeCounters counters;
  test::FakeSampled sampled;
  LoadSize small;
  small.product = 8;
  small.profiled_s = 0;
  for (const bool allowed : {true, false}) {
    at::globalContext().setAllowTF32CuBLAS(allowed);
    (void)measure_loads({CalibrationLoad::kFloatProduct}, c10::Device(c10::kCPU),
                        {counters, sampled}, 0.001, small);
    EXPECT_EQ(at::globalContext().allowTF32CuBLAS(), allowed);
  }
}

}  // namespace
}  // namespace noisemark::suite
