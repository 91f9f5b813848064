#include "reports/render/table.h"

#include <gtest/gtest.h>

namespace noisemark::reports {
namespace {

TEST(ModeRatios, times_fewer_is_plain_over_the_mode) {
  EXPECT_EQ(times_fewer(300, 100), 3.0);
  EXPECT_EQ(times_fewer({}, 100), std::nullopt);
  EXPECT_EQ(times_fewer(300, 0), std::nullopt);
}

TEST(ModeRatios, most_times_fewer_is_saved_by_none_over_what_no_plan_could_make_again) {
  MemoryMode mode;
  mode.plain.saved_bytes = 300;
  mode.plain.peak_bytes = 900;
  EXPECT_EQ(most_times_fewer(mode), std::nullopt) << "no bound is known";
  mode.irreplaceable_bytes = 75;
  EXPECT_EQ(most_times_fewer(mode), 4.0);
}

TEST(ModeRatios, predicted_overhead_is_a_share_of_the_median_step_of_none) {
  MemoryMode mode;
  mode.predicted_added_s = 0.25;
  mode.overhead.step_s = {100, 100, 100};
  mode.overhead.reference_step_s = {1, 2, 1000};
  EXPECT_EQ(predicted_overhead_frac(mode), 0.125);
}

TEST(ModeRatios, predicted_overhead_is_not_known_without_a_plan_or_a_timed_step) {
  MemoryMode mode;
  mode.overhead.reference_step_s = {1, 2};
  EXPECT_EQ(predicted_overhead_frac(mode), std::nullopt);
  mode.predicted_added_s = 0.25;
  mode.overhead.reference_step_s.clear();
  EXPECT_EQ(predicted_overhead_frac(mode), std::nullopt);
}

}  // namespace
}  // namespace noisemark::reports
