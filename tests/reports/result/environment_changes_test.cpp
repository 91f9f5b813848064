#include "reports/result/environment_changes.h"

#include <gtest/gtest.h>

namespace noisemark::reports {
namespace {

TEST(EnvironmentChanges, of_clock_reasons_are_none_where_a_gpu_only_got_to_work) {
  EXPECT_TRUE(same_clock_reasons("idle", "none"));
  EXPECT_TRUE(same_clock_reasons("idle", "power cap"));
  EXPECT_TRUE(same_clock_reasons("idle", "clocks set for applications, power cap"));
  EXPECT_TRUE(same_clock_reasons("thermal slow-down, power cap", "idle, thermal slow-down"));
  EXPECT_FALSE(same_clock_reasons("idle", "power cap, thermal slow-down"));
  EXPECT_FALSE(same_clock_reasons("power brake", "idle"));
  EXPECT_FALSE(same_clock_reasons("idle", "not known"));
}

TEST(EnvironmentChanges, are_those_that_were_recorded) {
  using Names = std::vector<std::string>;
  const std::string key(kChangedWhileItRan);
  EXPECT_EQ(changes_while_it_ran({}), Names{}) << "nobody looked";
  EXPECT_EQ(changes_while_it_ran({{key, "nothing"}}), Names{});
  EXPECT_EQ(changes_while_it_ran({{key, "cpu_governor, gpu_clock_reasons"}}),
            (Names{"cpu_governor", "gpu_clock_reasons"}));
}

TEST(EnvironmentChanges, name_by_what_the_gpu_slowed_itself_down) {
  EXPECT_EQ(slow_downs(Strings{}), "");
  EXPECT_EQ(slow_downs(std::string("idle, power brake, power brake")), "power brake");
  Strings environment = {{"gpu_clock_reasons", "idle, power cap"}};
  EXPECT_EQ(slow_downs(environment), "");
  environment["gpu_clock_reasons"] = "hardware thermal slow-down";
  EXPECT_EQ(slow_downs(environment), "hardware thermal slow-down");
  environment = {{"gpu_clock_reasons", "power brake, power cap"},
                 {"at the end: gpu_clock_reasons", "hardware slow-down, power brake"}};
  EXPECT_EQ(slow_downs(environment), "power brake, hardware slow-down");
}

}  // namespace
}  // namespace noisemark::reports
