#include "suite/probes/column_calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "suite/probes/calibration_loads.h"
#include "tests/suite/probes/fake_counters.h"

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

std::vector<CalibrationRow> good_rows() {
  return {row(CalibrationLoad::kIdle, {{"sm_active", 0.0},
                                       {"tensor_active", 0.0},
                                       {"dram_active", 0.002},
                                       {"graphics_active", 0.0}}),
          row(CalibrationLoad::kCopy, {{"sm_active", 0.97},
                                       {"tensor_active", 0.0},
                                       {"dram_active", 0.91},
                                       {"kernel_busy", 0.99},
                                       {"graphics_active", 0.995}}),
          row(CalibrationLoad::kProduct, {{"sm_active", 0.99},
                                          {"tensor_active", 0.93},
                                          {"dram_active", 0.2},
                                          {"kernel_busy", 0.985},
                                          {"graphics_active", 1.0}})};
}

reports::DeviceColumn& column(CalibrationRow& row, const std::string& name) {
  return *std::find_if(row.use.columns.begin(), row.use.columns.end(),
                       [&](const auto& one) { return one.name == name; });
}

/// What does not hold, or is not known, in the checks' own words.
std::vector<std::string> not_holding(const std::vector<CalibrationRow>& rows) {
  std::vector<std::string> words;
  for (const CalibrationCheck& check : check_columns(rows)) {
    if (!check.holds.value_or(false)) words.push_back(check.what + ": " + check.found);
  }
  return words;
}

TEST(ColumnCalibration, finds_nothing_in_columns_that_say_what_is_known) {
  EXPECT_EQ(not_holding(good_rows()), std::vector<std::string>{});
  EXPECT_EQ(check_columns(good_rows()).size(), 9U);
}

TEST(ColumnCalibration, catches_a_column_that_is_another) {
  auto rows = good_rows();
  std::swap(column(rows[1], "dram_active").value, column(rows[1], "tensor_active").value);
  EXPECT_EQ(not_holding(rows),
            (std::vector<std::string>{"copy: dram_active is at least 80.0 %: 0.0 %",
                                      "copy: tensor_active is at most 1.0 %: 91.0 %"}));
}

TEST(ColumnCalibration, catches_a_counter_that_runs_while_nothing_does) {
  auto rows = good_rows();
  column(rows[0], "sm_active").value = 0.5;
  EXPECT_EQ(not_holding(rows),
            (std::vector<std::string>{"idle: sm_active is at most 1.0 %: 50.0 %"}));
}

TEST(ColumnCalibration, catches_two_sources_of_busy_time_that_differ) {
  auto rows = good_rows();
  column(rows[2], "kernel_busy").value = 0.9;
  EXPECT_EQ(not_holding(rows),
            (std::vector<std::string>{"product: kernel_busy is within 2.0 % of graphics_active: "
                                      "90.0 % and 100.0 %"}));
}

TEST(ColumnCalibration, judges_nothing_by_a_column_that_is_missing) {
  auto rows = good_rows();
  column(rows[2], "tensor_active").value.reset();
  column(rows[2], "tensor_active").missing_reason = "no permission";
  const auto checks = check_columns(rows);
  EXPECT_EQ(std::count_if(checks.begin(), checks.end(),
                          [](const CalibrationCheck& check) { return !check.holds; }),
            1);
  EXPECT_NE(calibration_text(rows, checks).find("| no permission "), std::string::npos);
}

TEST(ColumnCalibration, says_all_of_it_in_words) {
  auto rows = good_rows();
  column(rows[0], "sm_active").value = 0.5;
  const std::string text = calibration_text(rows, check_columns(rows));
  EXPECT_NE(text.find("| **does not hold** |"), std::string::npos) << text;
  EXPECT_NE(text.find("| holds "), std::string::npos) << text;
  EXPECT_EQ(calibration_text({}, {}).find("holds"), std::string::npos);
}

TEST(MeasureLoad, makes_every_load_and_reads_beside_it) {
  test::FakeCounters counters;
  counters.reading.power_w = 300;
  LoadSize small;
  small.product = 64;
  small.copy_bytes = 1 << 12;
  small.type = at::kFloat;
  small.profiled = 2;
  for (const CalibrationLoad load :
       {CalibrationLoad::kIdle, CalibrationLoad::kCopy, CalibrationLoad::kProduct}) {
    const CalibrationRow made = measure_load(load, c10::Device(c10::kCPU), counters, 0.01, small);
    EXPECT_EQ(made.load, load);
    EXPECT_GE(made.use.window_s, 0.01);
    EXPECT_GT(made.use.steps, 0);
    const auto busy = std::find_if(made.use.columns.begin(), made.use.columns.end(),
                                   [](const auto& one) { return one.name == "kernel_busy"; });
    EXPECT_EQ(busy->missing_reason, "the profiler saw no kernel") << "a CPU runs none";
  }
  EXPECT_EQ(counters.windows, 3);
}

}  // namespace
}  // namespace noisemark::suite
