#include "suite/selftest/trial.h"

#include <gtest/gtest.h>

#include "reports/compare/compare.h"
#include "tests/reports/compare/runs.h"

namespace noisemark::suite {
namespace {

using reports::CompareVerdict;
using reports::test::rates_around;
using reports::test::side;

/// Eight rounds whose candidate runs at `ratio` of the base's images/s.
reports::Comparison rounds(double ratio, size_t count = 8) {
  return reports::compare(side("base", rates_around(100, count)),
                          side("new", rates_around(100 * ratio, count)));
}

const Trial kTwin{"none", "made-up rounds", ""};
const Trial kSlower{"every step longer", "made-up rounds", "images_per_s"};

TEST(SelfTestTrial, of_a_fault_is_as_expected_when_its_judge_calls_it_a_regression) {
  const TrialOutcome outcome = answer(kSlower, rounds(0.9));
  EXPECT_EQ(outcome.judged_by, std::vector<std::string>{"images_per_s"});
  EXPECT_TRUE(outcome.caught);
  EXPECT_TRUE(outcome.as_expected);
  EXPECT_EQ(exit_code_of({outcome}), ExitCode::kPass);
}

TEST(SelfTestTrial, of_a_fault_that_is_not_there_is_red) {
  const TrialOutcome outcome = answer(kSlower, rounds(1));
  EXPECT_FALSE(outcome.caught);
  EXPECT_FALSE(outcome.as_expected);
  EXPECT_EQ(exit_code_of({answer(kTwin, rounds(1)), outcome}), ExitCode::kFailed);
  const std::string text = trials_markdown({outcome});
  EXPECT_TRUE(text.starts_with("# FAIL")) << text;
  EXPECT_NE(text.find("0 of 1 faults caught"), std::string::npos) << text;
  EXPECT_NE(text.find("must be a regression of images_per_s"), std::string::npos) << text;
}

TEST(SelfTestTrial, of_a_fault_that_something_else_noticed_is_red) {
  const TrialOutcome outcome = answer({"a leak", "made-up rounds", "leaked_bytes"}, rounds(0.9));
  EXPECT_FALSE(outcome.caught);
  EXPECT_FALSE(outcome.as_expected);
}

TEST(SelfTestTrial, of_a_twin_is_red_when_it_does_not_pass) {
  EXPECT_TRUE(answer(kTwin, rounds(1)).as_expected);
  const TrialOutcome alarm = answer(kTwin, rounds(0.9));
  EXPECT_TRUE(alarm.caught);
  EXPECT_FALSE(alarm.as_expected);
  const TrialOutcome undecided = answer(kTwin, rounds(0.999, 2));
  EXPECT_EQ(undecided.comparison.verdict, CompareVerdict::kTooFewPairs);
  EXPECT_FALSE(undecided.as_expected);
}

TEST(SelfTestTrial, of_nothing_proves_nothing) {
  EXPECT_EQ(exit_code_of(std::vector<TrialOutcome>{}), ExitCode::kFailed);
}

TEST(SelfTestTrial, tables_show_every_fault_and_who_judged_it) {
  const std::string text =
      trials_markdown({answer(kTwin, rounds(1)), answer(kSlower, rounds(0.9))});
  EXPECT_TRUE(text.starts_with("# PASS")) << text;
  EXPECT_NE(text.find("1 of 1 faults caught, 1 of 1 untouched twins passed."), std::string::npos)
      << text;
  EXPECT_NE(text.find("| every step longer | made-up rounds | images_per_s | REGRESSION | yes"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace noisemark::suite
