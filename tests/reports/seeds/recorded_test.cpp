// Verdicts on real trainings that were recorded: tests/suite/selftest/quality_controls_test.cpp
// makes them, some of them broken on purpose, and again with NOISEMARK_UPDATE_GOLDEN.

#include <gtest/gtest.h>

#include <filesystem>

#include "reports/compare/sides.h"
#include "reports/seeds/judge.h"
#include "reports/seeds/study.h"

namespace noisemark::reports {
namespace {

const std::filesystem::path kRecorded = NOISEMARK_TEST_FOLDER "/recorded";

QualityStudy judged_control(const char* control, const QualityOptions& options = {}) {
  return judge_quality(read_runs({(kRecorded / "none").string(), (kRecorded / control).string()}),
                       options);
}

TEST(RecordedQuality, the_twin_passes) {
  const QualityStudy study = judged_control("twin");
  EXPECT_EQ(study.verdict, QualityVerdict::kPass) << quality_markdown(study);
  EXPECT_EQ(study.rows.front().difference, 0);
}

TEST(RecordedQuality, a_deliberately_worse_training_fails) {
  const QualityStudy study = judged_control("drowned", {.looks = 1});
  EXPECT_EQ(study.verdict, QualityVerdict::kFail) << quality_markdown(study);
  EXPECT_EQ(exit_code_of(study), ExitCode::kFailed);
}

TEST(RecordedQuality, noise_is_inconclusive) {
  const QualityStudy study = judged_control("halved");
  EXPECT_EQ(study.verdict, QualityVerdict::kInconclusive) << quality_markdown(study);
}

TEST(RecordedQuality, would_pass_a_worse_training_only_by_a_margin_that_is_refused) {
  const QualityStudy study =
      judged_control("drowned", {.gates = {{"val_loss", kWidestQualityMargin}}});
  EXPECT_NE(study.verdict, QualityVerdict::kPass) << quality_markdown(study);
}

}  // namespace
}  // namespace noisemark::reports
