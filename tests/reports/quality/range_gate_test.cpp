#include "reports/quality/range_gate.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "tests/reports/quality/seeds.h"

namespace noisemark::reports {
namespace {

using Values = std::vector<double>;

TEST(RangeGate, turns_the_spread_of_replicates_round_and_leaves_their_bias_out) {
  // Replicates 11 to 16 of a distance of 10: all too large, as those of a Fréchet distance are, and
  // further above their mean of 13 than below it.
  const Values replicates = {11, 12, 12, 14, 16};
  const Interval interval = resampled_interval(10, replicates, 0.5);
  EXPECT_DOUBLE_EQ(interval.low, 10 - (14 - 13));
  EXPECT_DOUBLE_EQ(interval.high, 10 + (13 - 12));
  const Interval all = resampled_interval(10, replicates, 1);
  EXPECT_DOUBLE_EQ(all.low, 10 - (16 - 13));
  EXPECT_DOUBLE_EQ(all.high, 10 + (13 - 11));
}

TEST(RangeGate, an_interval_over_seeds_is_at_least_students) {
  const Values values = {3.1, 3.2, 3.0, 3.3, 3.15};
  const Interval interval = seed_interval(values, {2000, 1, 0.9});
  // Mean 3.15, deviation 0.1118, t_4 = 2.1318 (5 %, any table).
  EXPECT_LE(interval.low, 3.15 - 2.1318 * 0.111803 / 2.236068 + 1e-5);
  EXPECT_GE(interval.high, 3.15 + 2.1318 * 0.111803 / 2.236068 - 1e-5);
}

TEST(RangeGate, a_skewed_sample_is_widened_by_its_bootstrap) {
  const Values values = {1, 1, 1, 1, 1, 1, 1, 1, 1, 11};
  const Interval interval = seed_interval(values, {20000, 1, 0.9});
  // Mean 2, Student's upper end 2 + 1.833 = 3.833; of ten draws the value 11 comes up thrice or
  // more often in 7 % of the resamples, which is a mean of 4.
  EXPECT_GE(interval.high, 4 - 1e-9);
}

TEST(RangeGate, has_three_verdicts_on_either_side) {
  EXPECT_EQ(judge_range({3.1, 3.3}, 3, 3.4).verdict, QualityVerdict::kPass);
  EXPECT_EQ(judge_range({3.5, 3.6}, 3, 3.4).verdict, QualityVerdict::kFail);
  EXPECT_EQ(judge_range({2.1, 2.9}, 3, 3.4).verdict, QualityVerdict::kFail) << "suspiciously good";
  EXPECT_EQ(judge_range({3.3, 3.5}, 3, 3.4).verdict, QualityVerdict::kInconclusive);
  EXPECT_EQ(judge_range({2.9, 3.5}, 3, 3.4).verdict, QualityVerdict::kInconclusive);
}

std::vector<const NamedResult*> pointers(const std::vector<NamedResult>& runs) {
  std::vector<const NamedResult*> all;
  for (const NamedResult& run : runs) all.push_back(&run);
  return all;
}

TEST(RangeGate, of_too_few_seeds_claims_nothing) {
  const auto runs = test::seeds_of("none", {0.1, 0.1001, 0.1002});
  const RangeRow row = judge_range_row(pointers(runs), {"val_loss", 0.05, 0.2}, {1000, 1, 0.9});
  EXPECT_EQ(row.verdict, QualityVerdict::kInconclusive);
  EXPECT_EQ(row.words, "3 of at least 5 seeds");
}

TEST(RangeGate, of_survivors_alone_claims_nothing) {
  const auto five = std::vector<double>{0.1, 0.1001, 0.1002, 0.0999, 0.0998};
  const QualityRange range = {"val_loss", 0.09, 0.11};
  const auto judged = [&](const test::ChangeSeed& change) {
    return judge_range_row(pointers(test::seeds_of("none", five, change)), range, {1000, 1, 0.9});
  };
  EXPECT_EQ(judged({}).verdict, QualityVerdict::kPass);
  const RangeRow lost = judged([](Result& result, uint64_t seed) {
    if (seed == 2) result.exit = {130, "interrupted", {}};
  });
  EXPECT_EQ(lost.verdict, QualityVerdict::kInconclusive);
  EXPECT_EQ(lost.words, "seed 2: the run ended as \"interrupted\"");
}

TEST(RangeGate, refuses_what_has_no_answer) {
  EXPECT_THROW((void)resampled_interval(1, {}, 0.9), std::logic_error);
  EXPECT_THROW((void)seed_interval(Values{1}, {}), std::logic_error);
  EXPECT_THROW((void)judge_range({1, 2}, 3, 3), std::logic_error);
}

}  // namespace
}  // namespace noisemark::reports
