#include "reports/ab/exact_figures.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/reports/compare/runs.h"

namespace noisemark::reports {
namespace {

using test::Change;
using Results = std::vector<Result>;

/// Runs of one build, under the deterministic profile.
Results runs(const std::string& build, size_t count, const Change& change = {}) {
  const auto deterministic = [&](Result& result, size_t i) {
    result.protocol.deterministic = true;
    result.metrics.push_back(
        {"flop_per_image", "FLOP", Direction::kNeutral, 36.0, "", "exact", {}, 1, ""});
    if (change) change(result, i);
  };
  Results results;
  for (const NamedResult& run :
       test::side(build, test::rates_around(100, count), deterministic).runs) {
    results.push_back(run.result);
  }
  return results;
}

ExactRow row_of(const std::vector<ExactRow>& rows, const std::string& metric) {
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const ExactRow& row) { return row.metric == metric; });
  EXPECT_NE(found, rows.end()) << metric;
  return found == rows.end() ? ExactRow{} : *found;
}

TEST(ExactFigures, of_equal_builds_are_equal_whatever_their_software) {
  const auto newer = [](Result& r, size_t) { r.identity.software["libtorch"] = "9"; };
  const std::vector<ExactRow> rows = compare_exact_figures(runs("old", 1), runs("new", 1, newer));
  EXPECT_GT(rows.size(), 20U);
  for (const ExactRow& row : rows) {
    EXPECT_EQ(row.verdict, CompareVerdict::kEquivalent) << row.metric;
  }
  EXPECT_EQ(row_of(rows, "loss trace").base_digest.size(), 64U);
  EXPECT_EQ(row_of(rows, "peak_bytes").unit, "bytes");
  EXPECT_TRUE(std::none_of(rows.begin(), rows.end(),
                           [](const ExactRow& row) { return row.metric == "parameters"; }));
}

TEST(ExactFigures, differ_by_a_byte_a_flop_or_a_bit_of_a_loss) {
  const struct {
    const char* metric;
    Change change;
  } faults[] = {
      {"peak_bytes", [](Result& r, size_t) { *test::metric(r, "peak_bytes").value += 1; }},
      {"saved_bytes", [](Result& r, size_t) { *test::metric(r, "saved_bytes").value += 1; }},
      {"flop_per_image", [](Result& r, size_t) { *test::metric(r, "flop_per_image").value -= 1; }},
      {"peak: workspace", [](Result& r, size_t) { r.memory.peak.by_category["workspace"] += 1; }},
      {"loss trace", [](Result& r, size_t) { r.determinism.loss_trace_sha256[0] ^= 1; }},
      {"absolute gates",
       [](Result& r, size_t) {
         r.exit = {1, "failed", {"leak"}};
       }},
  };
  const Results base = runs("old", 1);
  for (const auto& fault : faults) {
    const auto rows = compare_exact_figures(base, runs("new", 1, fault.change));
    EXPECT_EQ(row_of(rows, fault.metric).verdict, CompareVerdict::kRegression) << fault.metric;
  }
}

TEST(ExactFigures, that_do_not_repeat_within_a_build_prove_nothing) {
  const auto unsteady = [](Result& r, size_t i) {
    *test::metric(r, "saved_bytes").value += static_cast<double>(i);
  };
  const auto twice = compare_exact_figures(runs("old", 2), runs("new", 2, unsteady));
  EXPECT_EQ(row_of(twice, "saved_bytes").verdict, CompareVerdict::kInconclusive);
  // Beyond everything that A did, however unsteady B is.
  const auto worse = [](Result& r, size_t i) {
    *test::metric(r, "saved_bytes").value += static_cast<double>(i + 1);
  };
  const auto leaking = compare_exact_figures(runs("old", 2), runs("new", 2, worse));
  EXPECT_EQ(row_of(leaking, "saved_bytes").verdict, CompareVerdict::kRegression);
  const auto more = [](Result& r, size_t) { *test::metric(r, "saved_bytes").value += 1; };
  const auto steady = compare_exact_figures(runs("old", 2), runs("new", 2, more));
  EXPECT_EQ(row_of(steady, "saved_bytes").verdict, CompareVerdict::kRegression);
}

TEST(ExactFigures, of_other_work_are_not_compared) {
  const auto other = [](Result& r, size_t) { r.identity.threads += 1; };
  EXPECT_TRUE(compare_exact_figures(runs("old", 1), runs("new", 1, other)).empty());
  EXPECT_TRUE(compare_exact_figures({}, runs("new", 1)).empty());
  const auto clocks = [](Result& r, size_t) {
    r.identity.hardware["cpu_clocks"] = "governor performance";
  };
  EXPECT_TRUE(compare_exact_figures(runs("old", 1), runs("new", 1, clocks)).empty());
}

}  // namespace
}  // namespace noisemark::reports
