// A comparison of one build with itself as a shared two-core machine gave it, kept whole: twelve
// pairs, because the first look was inconclusive. What is injected into it is the only difference,
// so that every verdict here is fixed.

#include <gtest/gtest.h>

#include "reports/ab/judge.h"
#include "reports/ab/record.h"

namespace noisemark::reports {
namespace {

AbRecord recorded() {
  return read_ab(NOISEMARK_TEST_FOLDER "/recorded/gmm16-ho.json");
}

/// Returns a record in which every step of B took so much longer.
AbRecord slowed(double frac) {
  AbRecord record = recorded();
  for (AbPair& pair : record.pairs) {
    for (AbTurn& turn : pair.turns) {
      if (turn.side == AbSide::kA) continue;
      for (double& seconds : turn.step_s) seconds *= 1 + frac;
    }
  }
  return record;
}

CompareVerdict verdict_of(const AbRecord& record) {
  return judge_ab(record).comparison.verdict;
}

TEST(RecordedAb, the_untouched_twin_passes) {
  const AbVerdict verdict = judge_ab(recorded());
  EXPECT_EQ(exit_code_of(verdict.comparison.verdict), ExitCode::kPass);
  EXPECT_EQ(verdict.judged_pairs, 12);
}

TEST(RecordedAb, an_injected_slow_down_of_ten_percent_is_caught) {
  EXPECT_EQ(verdict_of(slowed(0.10)), CompareVerdict::kRegression);
}

TEST(RecordedAb, an_injected_slow_down_of_five_percent_is_not_called_equal) {
  EXPECT_NE(exit_code_of(verdict_of(slowed(0.05))), ExitCode::kPass);
}

TEST(RecordedAb, an_injected_loss_of_one_percent_more_is_caught) {
  AbRecord record = recorded();
  for (AbPair& pair : record.pairs) {
    for (AbTurn& turn : pair.turns) {
      for (double& loss : turn.loss) loss *= turn.side == AbSide::kB ? 1.01 : 1;
    }
  }
  EXPECT_EQ(verdict_of(record), CompareVerdict::kRegression);
}

}  // namespace
}  // namespace noisemark::reports
