#include "suite/run/passes/watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "suite/run/passes/training_pass.h"

namespace noisemark::suite {
namespace {

TEST(TimeLeft, counts_evaluations_by_their_mean_beside_steps) {
  TimeLeft left;
  EXPECT_EQ(left.seconds(10, 2), 0) << "nothing is known yet";
  left.step(2);
  EXPECT_EQ(left.seconds(10, 2), 20);
  left.evaluation(30);
  left.evaluation(50);
  EXPECT_EQ(left.seconds(10, 2), 20 + 2 * 40);
  EXPECT_EQ(left.seconds(10, 0), 20);
}

TEST(TimeLeft, follows_steps_as_they_change) {
  TimeLeft left;
  left.step(1);
  left.step(2);
  EXPECT_GT(left.step_s(), 1);
  EXPECT_LT(left.step_s(), 2);
  for (int step = 0; step < 100; ++step) left.step(2);
  EXPECT_NEAR(left.step_s(), 2, 1e-3) << "a tenth of the difference goes with every step";
}

TEST(Progress, gives_a_log_a_line_of_its_own_every_so_often) {
  using std::chrono::milliseconds;
  const std::string label(90, 'x');
  testing::internal::CaptureStderr();
  {
    Progress often(label, 2, 1, milliseconds(0));
    often.say("memory pass");
    often.show(0, 1, 0.5, 0);
    Progress seldom("gmm16", 2, 1);
    seldom.say("memory pass");
    seldom.show(1, 1, 0.5, 0);
    Progress silent("", 2, 1, milliseconds(0));
    silent.say("memory pass");
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2) << log;
  EXPECT_EQ(log.find("gmm16"), std::string::npos) << log;
  EXPECT_EQ(log.find('\r'), std::string::npos) << log;
  EXPECT_LE(log.find('\n'), 80U) << log;
}

TEST(CutToWidth, leaves_one_column_free_and_no_character_halved) {
  EXPECT_EQ(cut_to_width("gmm16@cpu: step 1/9", 80), "gmm16@cpu: step 1/9");
  EXPECT_EQ(cut_to_width("gmm16@cpu: step 1/9", 6), "gmm16");
  EXPECT_EQ(cut_to_width("\u00e9\u00e9\u00e9", 3), "\u00e9\u00e9");
  EXPECT_EQ(cut_to_width("abc", 1), "");
}

TEST(CutToWidth, counts_columns_of_which_some_characters_take_two) {
  EXPECT_EQ(cut_to_width("\u65e5\u672c\u8a9e", 6), "\u65e5\u672c");
  EXPECT_EQ(cut_to_width("\u65e5\u672c\u8a9e", 7), "\u65e5\u672c\u8a9e");
  EXPECT_EQ(cut_to_width("a\uac00\U0001f600b", 6), "a\uac00\U0001f600");
  EXPECT_EQ(cut_to_width("\xff\xff\xff", 3), "\xff\xff");
}

/// Counts as the training itself decides after each step.
int64_t counted(int64_t done, int64_t steps, int64_t every) {
  int64_t due = 0;
  for (int64_t step = done + 1; step <= steps; ++step) {
    if (step == steps || (every > 0 && step % every == 0)) ++due;
  }
  return due;
}

TEST(TimeLeft, is_told_how_many_evaluations_are_to_come) {
  for (const int64_t steps : {1, 7, 10}) {
    for (const int64_t every : {0, 1, 3, 5, 10, 20}) {
      for (int64_t done = 0; done <= steps; ++done) {
        EXPECT_EQ(evaluations_after(done, steps, every), counted(done, steps, every))
            << done << " of " << steps << ", every " << every;
      }
    }
  }
}

}  // namespace

}  // namespace noisemark::suite
