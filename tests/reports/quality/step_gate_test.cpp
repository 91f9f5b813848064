#include "reports/quality/step_gate.h"

#include <gtest/gtest.h>

#include <limits>

#include "reports/quality/judge.h"
#include "reports/quality/quality_markdown.h"
#include "tests/reports/quality/seeds.h"

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
QualityStudy judged(const std::string& mode, const test::ChangeSeed& change,
                    const test::ChangeSeed& of_none = {}) {
  const auto none = losses_of_none(4);
  return judge_quality(together(
      {seeds_of("none", none, of_none), seeds_of(mode, worse_by(1e-5, 1e-5, none), change)}));
}

const StepRow& row_of(const QualityStudy& study) {
  return study.steps.at(0);
}

test::ChangeSeed error_of(double frac) {
  return mode_that_is(false, [=](Result& result, uint64_t seed) {
    if (seed != 1) return;
    result.memory_mode.gradient_error.error_frac = frac;
  });
}

TEST(StepGate, fails_a_lossless_mode_whose_deterministic_runs_have_other_weights) {
  const auto change = mode_that_is(true, deterministic());
  const QualityStudy study = judged("echo", change, deterministic());
  EXPECT_EQ(row_of(study).tier, 0);
  EXPECT_EQ(row_of(study).verdict, QualityVerdict::kFail) << quality_markdown(study);
  EXPECT_EQ(study.verdict, QualityVerdict::kFail) << "though its losses pass";
  EXPECT_EQ(study.rows.front().verdict, QualityVerdict::kPass);
}

TEST(StepGate, does_not_judge_bits_of_runs_that_were_not_deterministic) {
  const QualityStudy study = judged("echo", mode_that_is(true));
  EXPECT_EQ(row_of(study).verdict, std::nullopt) << quality_markdown(study);
  EXPECT_EQ(study.verdict, QualityVerdict::kPass) << "by its losses";
}

TEST(StepGate, goes_by_the_certificate_of_each_run) {
  EXPECT_EQ(row_of(judged("echo", certified(Verdict::kPass))).verdict, QualityVerdict::kPass);
  EXPECT_EQ(row_of(judged("echo", certified(Verdict::kFail))).verdict, QualityVerdict::kFail);
  EXPECT_EQ(judged("echo", certified(Verdict::kFail)).verdict, QualityVerdict::kFail);
  EXPECT_EQ(judged("echo", certified(Verdict::kUnavailable)).verdict,
            QualityVerdict::kInconclusive);
}

TEST(StepGate, a_certificate_does_not_outweigh_other_weights_of_deterministic_runs) {
  const auto change = [](Result& result, uint64_t seed) {
    certified(Verdict::kPass)(result, seed);
    deterministic()(result, seed);
  };
  EXPECT_EQ(row_of(judged("echo", change, deterministic())).verdict, QualityVerdict::kFail);
}

TEST(StepGate, of_a_run_without_proof_among_others_judges_nothing) {
  const auto change = mode_that_is(true, [](Result& result, uint64_t seed) {
    if (seed == 2) return;
    result.memory_mode.certificate.verdict = Verdict::kPass;
  });
  EXPECT_EQ(row_of(judged("echo", change)).verdict, std::nullopt);
}

TEST(StepGate, fails_a_lossy_mode_whose_gradient_is_another_one_in_any_seed) {
  const QualityStudy study = judged("q2", error_of(0.71));
  EXPECT_EQ(row_of(study).tier, 1);
  EXPECT_EQ(row_of(study).value, 0.71);
  EXPECT_EQ(row_of(study).bound, 0.7);
  EXPECT_EQ(study.verdict, QualityVerdict::kFail) << quality_markdown(study);
  EXPECT_EQ(judged("q2", error_of(0.7)).verdict, QualityVerdict::kPass);
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(judged("q2", error_of(kNan)).verdict, QualityVerdict::kFail);
}

TEST(StepGate, takes_the_bound_of_the_definition) {
  const auto definition = R"({"quality":{"gradient_error_max":0.01}})";
  const auto strict = [=](Result& result, uint64_t seed) {
    error_of(0.02)(result, seed);
    result.definition = definition;
  };
  const auto none = [=](Result& result, uint64_t) { result.definition = definition; };
  EXPECT_EQ(row_of(judged("dpr8", strict, none)).verdict, QualityVerdict::kFail);
}

TEST(StepGate, without_a_measured_gradient_judges_nothing_and_says_why) {
  const QualityStudy study = judged("q2", mode_that_is(false, [](Result& result, uint64_t) {
                                      result.memory_mode.gradient_error.missing_reason =
                                          "it was not trained beside none";
                                    }));
  EXPECT_EQ(row_of(study).verdict, std::nullopt);
  EXPECT_EQ(row_of(study).words, "not judged: it was not trained beside none");
}

}  // namespace
}  // namespace noisemark::reports
