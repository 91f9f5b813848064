#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "reports/compare/compare.h"
#include "reports/compare/comparison.h"
#include "tests/reports/compare/runs.h"

/// The words of the tests of compare().
namespace noisemark::reports::test::comparing {

using test::Change;
using test::rates_around;

inline constexpr size_t kRuns = 8;
inline constexpr double kRate = 16;

/// Eight runs beside eight, the new ones `factor` times as fast and changed by `change`.
inline Comparison compared(double factor, const Change& change = {}) {
  const Side base = test::side("old", rates_around(kRate, kRuns));
  // Another order of the same spread, so that pairs differ.
  std::vector<double> rates = rates_around(kRate * factor, kRuns);
  std::rotate(rates.begin(), rates.begin() + 1, rates.end());
  return compare(base, test::side("new", rates, change));
}

inline const StochasticRow& row_of(const Comparison& comparison, const std::string& metric) {
  for (const StochasticRow& row : comparison.stochastic) {
    if (row.metric == metric) return row;
  }
  throw std::logic_error("no row " + metric);
}

inline const ExactRow& exact_row_of(const Comparison& comparison, const std::string& metric) {
  for (const ExactRow& row : comparison.exact) {
    if (row.metric == metric) return row;
  }
  throw std::logic_error("no row " + metric);
}

inline Change set_metric(const std::string& name, double value) {
  return [=](Result& result, size_t) { test::metric(result, name).value = value; };
}

inline void expect_code(const Comparison& comparison, ExitCode code) {
  EXPECT_EQ(exit_code_of(comparison.verdict), code) << comparison_markdown(comparison);
  EXPECT_EQ(comparison.reasons.empty(), code == ExitCode::kPass);
}

}  // namespace noisemark::reports::test::comparing
