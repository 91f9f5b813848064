#include "reports/ab/losses.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reports/ab/judge.h"
#include "tests/reports/ab/simulated.h"

namespace noisemark::reports {
namespace {

using test::simulate;

/// Changes a loss of one side in every pair, or in one of them.
void change_loss(AbRecord& record, AbSide side, double (*change)(double), size_t from = 0,
                 size_t to = 6) {
  for (size_t i = from; i < to; ++i) {
    for (AbTurn& turn : record.pairs[i].turns) {
      if (turn.side != side) continue;
      turn.loss[3] = change(turn.loss[3]);
      break;
    }
  }
}

double next_bit(double loss) {
  return std::nextafter(loss, 1.0);
}

double one_percent(double loss) {
  return 1.01 * loss;
}

TEST(Losses, that_are_equal_bit_for_bit_pass) {
  const LossFinding finding = compare_losses(simulate({}), "cell", false);
  ASSERT_TRUE(finding.row);
  EXPECT_EQ(finding.row->verdict, CompareVerdict::kEquivalent);
  EXPECT_EQ(finding.row->base_digest, finding.row->candidate_digest);
  EXPECT_EQ(finding.row->metric, "losses of 25 steps");
}

TEST(Losses, that_differ_in_the_last_bit_are_a_regression_and_the_step_is_named) {
  AbRecord record = simulate({});
  change_loss(record, AbSide::kB, next_bit);
  const LossFinding finding = compare_losses(record, "cell", false);
  EXPECT_EQ(finding.row->verdict, CompareVerdict::kRegression);
  EXPECT_NE(finding.row->words.find("first at step 8: 0.1111111111111111 and 0.11111111111111112"),
            std::string::npos)
      << finding.row->words;
  EXPECT_NE(finding.row->base_digest, finding.row->candidate_digest);
  EXPECT_EQ(judge_ab(record).comparison.verdict, CompareVerdict::kRegression);
}

TEST(Losses, may_differ_where_that_is_allowed_and_it_is_said) {
  AbRecord record = simulate({});
  change_loss(record, AbSide::kB, one_percent);
  AbOptions options;
  options.other_losses = true;
  const AbVerdict verdict = judge_ab(record, options);
  EXPECT_EQ(verdict.comparison.verdict, CompareVerdict::kEquivalent);
  ASSERT_EQ(verdict.comparison.notes.size(), 2U) << "the other one: there were no short runs";
  EXPECT_EQ(verdict.comparison.notes[0].find("the losses differ, as they may: "), 0U);
}

TEST(Losses, that_b_does_not_repeat_are_inconclusive) {
  AbRecord record = simulate({});
  change_loss(record, AbSide::kB, next_bit, 4, 5);
  const LossFinding finding = compare_losses(record, "cell", false);
  EXPECT_EQ(finding.row->verdict, CompareVerdict::kInconclusive);
  EXPECT_EQ(finding.row->words, "B does not repeat its own losses");
}

TEST(Losses, that_a_does_not_repeat_are_judged_only_in_the_deterministic_profile) {
  AbRecord record = simulate({});
  change_loss(record, AbSide::kA, next_bit, 4, 5);
  const LossFinding finding = compare_losses(record, "cell", false);
  EXPECT_FALSE(finding.row);
  EXPECT_NE(finding.note.find("A does not repeat its own losses"), std::string::npos);
  record.a.identity["protocol.deterministic"] = "yes";
  EXPECT_EQ(compare_losses(record, "cell", false).row->verdict, CompareVerdict::kInconclusive);
}

TEST(Losses, of_a_process_that_made_fewer_steps_are_compared_as_far_as_they_go) {
  AbRecord record = simulate({});
  record.pairs.back().turns.resize(3);
  EXPECT_EQ(compare_losses(record, "cell", false).row->verdict, CompareVerdict::kEquivalent);
}

TEST(Losses, of_no_pair_say_nothing) {
  test::Simulated machine;
  machine.made = 0;
  const LossFinding finding = compare_losses(simulate(machine), "cell", false);
  EXPECT_FALSE(finding.row);
  EXPECT_EQ(finding.note, "");
}

}  // namespace
}  // namespace noisemark::reports
