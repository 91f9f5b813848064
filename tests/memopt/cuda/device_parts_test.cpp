#include "memopt/accounting/allocation_source.h"
#include "memopt/device/device_clock.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "memopt/accounting/tracking_allocator.h"

namespace noisemark::memopt {
namespace {

TEST(DeviceClock, measures_at_least_what_passed_between_two_marks) {
  const auto clock = make_device_clock(c10::Device("cpu"));
  const auto begin = clock->mark();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const auto end = clock->mark();
  clock->synchronize();
  EXPECT_GE(clock->seconds_between(begin, end), 0.005);
  clock->clear();
  EXPECT_EQ(clock->mark(), 0U);
}

TEST(DeviceParts, name_what_times_on_a_cpu_depend_on) {
  EXPECT_TRUE(device_model(c10::Device("cpu")).starts_with("cpu, "));
  EXPECT_EQ(device_model(c10::Device("meta")), "meta");
}

TEST(DeviceParts, know_no_workspace_of_a_cpus_libraries) {
  EXPECT_TRUE(library_workspaces(c10::Device("cpu")).empty());
  EXPECT_TRUE(library_workspaces(c10::Device("meta")).empty());
}

TEST(DeviceParts, refuse_a_device_that_nothing_was_built_for) {
  EXPECT_THROW(make_device_clock(c10::Device("meta")), c10::Error);
  EXPECT_EQ(find_allocation_source(c10::Device("meta")), nullptr);
  EXPECT_EQ(find_allocation_source(c10::Device("cpu")), &cpu_allocation_source());
}

}  // namespace
}  // namespace noisemark::memopt
