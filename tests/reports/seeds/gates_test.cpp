#include "reports/seeds/gates.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "reports/result/gate.h"
#include "reports/seeds/judge.h"
#include "reports/seeds/study.h"
#include "tests/reports/seeds/seeds.h"

namespace noisemark::reports {
namespace {

using test::losses_of_none;
using test::seeds_of;
using test::together;
using test::worse_by;

/// A mode whose passes said what it is.
test::ChangeSeed mode_that_is(bool lossless, const test::ChangeSeed& more = {}) {
  return [=](Result& result, uint64_t seed) {
    result.memory_mode.measured = true;
    result.memory_mode.lossless = lossless;
    if (more) more(result, seed);
  };
}

test::ChangeSeed deterministic() {
  return [](Result& result, uint64_t) { result.protocol.deterministic = true; };
}

test::ChangeSeed certified(Verdict verdict) {
  return mode_that_is(true, [=](Result& result, uint64_t) {
    result.memory_mode.certificate.verdict = verdict;
    result.memory_mode.certificate.words = "as the test has it";
  });
}

/// Two seeds of a mode that costs next to nothing by its losses.
QualityStudy judged_step(const std::string& mode, const test::ChangeSeed& change,
                         const test::ChangeSeed& of_none = {}) {
  const auto none = losses_of_none(4);
  return judge_quality(together(
      {seeds_of("none", none, of_none), seeds_of(mode, worse_by(1e-5, 1e-5, none), change)}));
}

const StepRow& step_of(const QualityStudy& study) {
  return study.steps.at(0);
}

test::ChangeSeed error_of(double frac, double bound = 0.7) {
  return mode_that_is(false, [=](Result& result, uint64_t seed) {
    if (seed != 1) return;
    result.memory_mode.gradient_error.error_frac = frac;
    Gate& gate = result.gates.emplace_back();
    gate.name = kGradientErrorGate;
    gate.bound = bound;
  });
}

TEST(StepGate, fails_a_lossless_mode_whose_deterministic_runs_have_other_weights) {
  const auto change = mode_that_is(true, deterministic());
  const QualityStudy study = judged_step("echo", change, deterministic());
  EXPECT_EQ(step_of(study).tier, 0);
  EXPECT_EQ(step_of(study).verdict, QualityVerdict::kFail) << quality_markdown(study);
  EXPECT_EQ(study.verdict, QualityVerdict::kFail) << "though its losses pass";
  EXPECT_EQ(study.rows.front().verdict, QualityVerdict::kPass);
}

TEST(StepGate, does_not_judge_bits_of_runs_that_were_not_deterministic) {
  const QualityStudy study = judged_step("echo", mode_that_is(true));
  EXPECT_EQ(step_of(study).verdict, std::nullopt) << quality_markdown(study);
  EXPECT_EQ(study.verdict, QualityVerdict::kPass) << "by its losses";
}

TEST(StepGate, goes_by_the_certificate_of_each_run) {
  EXPECT_EQ(step_of(judged_step("echo", certified(Verdict::kPass))).verdict, QualityVerdict::kPass);
  EXPECT_EQ(step_of(judged_step("echo", certified(Verdict::kFail))).verdict, QualityVerdict::kFail);
  EXPECT_EQ(judged_step("echo", certified(Verdict::kFail)).verdict, QualityVerdict::kFail);
  EXPECT_EQ(judged_step("echo", certified(Verdict::kUnavailable)).verdict,
            QualityVerdict::kInconclusive);
}

TEST(StepGate, a_certificate_does_not_outweigh_other_weights_of_deterministic_runs) {
  const auto change = [](Result& result, uint64_t seed) {
    certified(Verdict::kPass)(result, seed);
    deterministic()(result, seed);
  };
  EXPECT_EQ(step_of(judged_step("echo", change, deterministic())).verdict, QualityVerdict::kFail);
}

TEST(StepGate, of_a_run_without_proof_among_others_judges_nothing) {
  const auto change = mode_that_is(true, [](Result& result, uint64_t seed) {
    if (seed == 2) return;
    result.memory_mode.certificate.verdict = Verdict::kPass;
  });
  EXPECT_EQ(step_of(judged_step("echo", change)).verdict, std::nullopt);
}

TEST(StepGate, fails_a_lossy_mode_whose_gradient_is_another_one_in_any_seed) {
  const QualityStudy study = judged_step("q2", error_of(0.71));
  EXPECT_EQ(step_of(study).tier, 1);
  EXPECT_EQ(step_of(study).value, 0.71);
  EXPECT_EQ(step_of(study).bound, 0.7);
  EXPECT_EQ(study.verdict, QualityVerdict::kFail) << quality_markdown(study);
  EXPECT_EQ(judged_step("q2", error_of(0.7)).verdict, QualityVerdict::kPass);
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(judged_step("q2", error_of(kNan)).verdict, QualityVerdict::kFail);
}

TEST(StepGate, takes_the_bound_of_the_runs_own_gate) {
  EXPECT_EQ(step_of(judged_step("dpr8", error_of(0.02, 0.01))).verdict, QualityVerdict::kFail);
  EXPECT_EQ(step_of(judged_step("dpr8", error_of(0.02, 0.02))).verdict, QualityVerdict::kPass);
}

TEST(StepGate, without_a_measured_gradient_judges_nothing_and_says_why) {
  const QualityStudy study = judged_step("q2", mode_that_is(false, [](Result& result, uint64_t) {
                                           result.memory_mode.gradient_error.missing_reason =
                                               "it was not trained beside none";
                                         }));
  EXPECT_EQ(step_of(study).verdict, std::nullopt);
  EXPECT_EQ(step_of(study).words, "not judged: it was not trained beside none");
}

TEST(RangeGate, turns_the_spread_of_replicates_round_and_leaves_their_bias_out) {
  // Replicates 11 to 16 of a distance of 10: all too large, as those of a Fréchet distance are, and
  // further above their mean of 13 than below it.
  const std::vector<double> replicates = {11, 12, 12, 14, 16};
  const Interval interval = resampled_interval(10, replicates, 0.5);
  EXPECT_DOUBLE_EQ(interval.low, 10 - (14 - 13));
  EXPECT_DOUBLE_EQ(interval.high, 10 + (13 - 12));
  const Interval all = resampled_interval(10, replicates, 1);
  EXPECT_DOUBLE_EQ(all.low, 10 - (16 - 13));
  EXPECT_DOUBLE_EQ(all.high, 10 + (13 - 11));
}

TEST(RangeGate, an_interval_over_seeds_is_at_least_students) {
  const std::vector<double> values = {3.1, 3.2, 3.0, 3.3, 3.15};
  const Interval interval = seed_interval(values, {2000, 1, 0.9});
  // Mean 3.15, deviation 0.1118, t_4 = 2.1318 (5 %, any table).
  EXPECT_LE(interval.low, 3.15 - 2.1318 * 0.111803 / 2.236068 + 1e-5);
  EXPECT_GE(interval.high, 3.15 + 2.1318 * 0.111803 / 2.236068 - 1e-5);
}

TEST(RangeGate, a_skewed_sample_is_widened_by_its_bootstrap) {
  const std::vector<double> values = {1, 1, 1, 1, 1, 1, 1, 1, 1, 11};
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
  EXPECT_EQ(row.words, "3 seeds, and a range needs at least 5");
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
  EXPECT_THROW((void)seed_interval(std::vector<double>{1}, {}), std::logic_error);
  EXPECT_THROW((void)judge_range({1, 2}, 3, 3), std::logic_error);
}

}  // namespace

}  // namespace noisemark::reports
