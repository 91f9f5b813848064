#include "reports/quality/gradient_bound.h"

#include <gtest/gtest.h>

#include <string>

#include "reports/quality/judge.h"
#include "reports/quality/quality_markdown.h"
#include "tests/reports/quality/seeds.h"

namespace noisemark::reports {
namespace {

using test::losses_of_none;
using test::seeds_of;
using test::together;
using test::worse_by;

Result under(const std::string& mode) {
  Result result;
  result.identity.mode = mode;
  return result;
}

/// The verdict of tier 1 on a mode that errs by `frac` in one of its seeds and costs no quality.
QualityVerdict verdict_on(const std::string& mode, double frac) {
  const auto none = losses_of_none(4);
  const auto errs = [=](Result& result, uint64_t seed) {
    result.memory_mode.measured = true;
    result.memory_mode.lossless = false;
    if (seed == 0) result.memory_mode.gradient_error.error_frac = frac;
  };
  const QualityStudy study = judge_quality(
      together({seeds_of("none", none), seeds_of(mode, worse_by(1e-5, 1e-5, none), errs)}));
  EXPECT_EQ(study.steps.at(0).tier, 1) << quality_markdown(study);
  return study.steps.at(0).verdict.value();
}

TEST(GradientBound, of_every_codec_passes_what_is_within_and_fails_what_is_beyond) {
  for (const CodecBound& one : codec_bounds()) {
    for (const char* before : {"", "echo+", "echo+attn+", "gist+"}) {
      const std::string mode = std::string(before) + std::string(one.codec);
      EXPECT_EQ(gradient_error_bound(under(mode)), one.bound) << mode;
      EXPECT_EQ(verdict_on(mode, one.bound), QualityVerdict::kPass) << mode;
      EXPECT_EQ(verdict_on(mode, one.bound * 1.001), QualityVerdict::kFail) << mode;
    }
  }
}

TEST(GradientBound, of_a_finer_codec_is_never_looser) {
  ASSERT_EQ(codec_bounds().size(), 5U);
  for (size_t i = 1; i < codec_bounds().size(); ++i) {
    EXPECT_LT(codec_bounds()[i - 1].bound, codec_bounds()[i].bound) << codec_bounds()[i].codec;
  }
}

TEST(GradientBound, fails_a_codec_that_rounds_as_a_coarser_one) {
  // What the first seed of gmm16-ho errs by under each, on a CPU.
  struct Coarser {
    const char* mode;
    double error;  ///< of the coarser codec
  };
  for (const Coarser& one : {Coarser{"dpr16", 0.0163}, Coarser{"dpr10", 0.0895},
                             Coarser{"dpr8", 0.475}, Coarser{"q4", 0.475}}) {
    EXPECT_EQ(verdict_on(one.mode, one.error), QualityVerdict::kFail) << one.mode;
  }
}

TEST(GradientBound, of_a_budget_is_twice_the_error_that_it_allows) {
  Result result = under("budget:17MiB,error=0.02");
  result.memory_mode.budget.error_frac = 0.02;
  EXPECT_EQ(gradient_error_bound(result), 0.04);
}

TEST(GradientBound, of_the_definition_comes_before_all_others) {
  Result result = under("dpr16");
  result.definition = R"({"quality":{"gradient_error_max":0.5}})";
  EXPECT_EQ(gradient_error_bound(result), 0.5);
}

TEST(GradientBound, of_what_has_no_codec_is_the_loosest) {
  EXPECT_EQ(gradient_error_bound(under("dpr")), kLoosestGradientBound);
  EXPECT_EQ(gradient_error_bound(under("")), kLoosestGradientBound);
}

}  // namespace
}  // namespace noisemark::reports
