#include "suite/probes/busy_time.h"

#include <gtest/gtest.h>

namespace noisemark::suite {
namespace {

TEST(BusyTime, of_nothing_is_nothing) {
  EXPECT_EQ(merged_ns({}), 0);
  const BusyTime none = busy_time({}, 3);
  EXPECT_EQ(none.kernel_s, 0);
  EXPECT_EQ(none.busy_s, 0);
  EXPECT_EQ(none.kernels, 0);
}

TEST(BusyTime, counts_overlaps_once_whatever_the_order) {
  EXPECT_EQ(merged_ns({{0, 10}, {20, 30}}), 20) << "apart";
  EXPECT_EQ(merged_ns({{0, 10}, {10, 30}}), 30) << "touching";
  EXPECT_EQ(merged_ns({{20, 30}, {5, 25}, {0, 10}}), 30) << "a chain, backwards";
  EXPECT_EQ(merged_ns({{0, 100}, {10, 20}, {30, 40}}), 100) << "one within another";
  EXPECT_EQ(merged_ns({{5, 15}, {5, 10}, {5, 15}}), 10) << "the same begin";
}

TEST(BusyTime, takes_no_time_for_a_span_that_ends_before_it_begins) {
  EXPECT_EQ(merged_ns({{10, 5}, {7, 7}}), 0);
  EXPECT_EQ(merged_ns({{0, 10}, {20, 15}, {30, 40}}), 20);
}

TEST(BusyTime, works_before_the_epoch_of_its_clock) {
  EXPECT_EQ(merged_ns({{-30, -10}, {-20, 5}}), 35);
}

TEST(BusyTime, is_per_step_and_tells_kernels_from_copies) {
  DeviceActivity activity;
  activity.kernels = {{0, 1'000'000'000}, {500'000'000, 2'000'000'000}};
  activity.copies = {{1'500'000'000, 4'000'000'000}};
  const BusyTime busy = busy_time(activity, 2);
  // Whole half seconds are exact in binary.
  EXPECT_DOUBLE_EQ(busy.kernel_s, 1);
  EXPECT_DOUBLE_EQ(busy.busy_s, 2);
  EXPECT_DOUBLE_EQ(busy.summed_kernel_s, 1.25);
  EXPECT_DOUBLE_EQ(busy.kernels, 1);
}

TEST(BusyTime, of_copies_alone_has_no_kernel) {
  DeviceActivity activity;
  activity.copies = {{0, 1'000'000'000}};
  const BusyTime busy = busy_time(activity, 1);
  EXPECT_EQ(busy.kernel_s, 0);
  EXPECT_DOUBLE_EQ(busy.busy_s, 1);
}

}  // namespace
}  // namespace noisemark::suite
