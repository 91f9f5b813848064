#include "suite/environment/changes.h"

#include <gtest/gtest.h>

#include "reports/environment_changes.h"
#include "suite/environment/environment.h"
#include "suite/environment/graphics.h"
#include "suite/environment/processor.h"

namespace noisemark::suite {
namespace {

using reports::Strings;

const std::string kChanged{reports::kChangedWhileItRan};

Strings before() {
  return {{"cpu_governor", "performance"}, {"gpu_clock_reasons", "idle"},
          {"gpu_other_processes", "0"},    {"gpu_sm_clock_mhz", "345"},
          {"kernel", "Linux 6"},           {"package libfmt-dev", "9"}};
}

/// What is recorded where `key` is `value` at the end, and all else as before.
Strings after_change(const std::string& key, const std::string& value) {
  Strings environment = before();
  Strings end = before();
  end[key] = value;
  add_changes(environment, end);
  return environment;
}

TEST(Changes, of_a_setting_are_named_and_both_values_kept) {
  const Strings found = after_change("cpu_governor", "powersave");
  EXPECT_EQ(found.at(kChanged), "cpu_governor");
  EXPECT_EQ(found.at("cpu_governor"), "performance");
  EXPECT_EQ(found.at("at the end: cpu_governor"), "powersave");
}

TEST(Changes, name_a_processor_that_heat_or_a_quota_slowed_down) {
  for (const char* count : {"cpu_thermal_throttles", "cpu_quota_throttles"}) {
    Strings environment = {{count, "7"}};
    add_changes(environment, {{count, "8"}});
    EXPECT_EQ(environment.at(kChanged), count);
  }
}

TEST(Changes, are_none_where_all_is_as_it_was) {
  Strings environment = before();
  add_changes(environment, before());
  Strings expected = before();
  expected[kChanged] = "nothing";
  EXPECT_EQ(environment, expected);
}

TEST(Changes, of_what_differs_always_are_kept_but_not_named) {
  const Strings found = after_change("gpu_sm_clock_mhz", "1980");
  EXPECT_EQ(found.at(kChanged), "nothing");
  EXPECT_EQ(found.at("at the end: gpu_sm_clock_mhz"), "1980");
}

TEST(Changes, tell_a_gpu_that_got_to_work_from_one_that_is_held_down) {
  EXPECT_EQ(after_change("gpu_clock_reasons", "none").at(kChanged), "nothing");
  EXPECT_EQ(after_change("gpu_clock_reasons", "power cap").at(kChanged), "nothing");
  EXPECT_EQ(after_change("gpu_clock_reasons", "power cap").at("at the end: gpu_clock_reasons"),
            "power cap");
  EXPECT_EQ(after_change("gpu_clock_reasons", "power cap, thermal slow-down").at(kChanged),
            "gpu_clock_reasons");
}

TEST(Changes, count_other_processes_only_where_they_can_be_told_from_this_one) {
  EXPECT_EQ(after_change("gpu_other_processes", "1").at(kChanged), "gpu_other_processes");
  Strings environment = {{"gpu_other_processes", process_count(0, true)}};
  add_changes(environment, {{"gpu_other_processes", process_count(1, true)}});
  EXPECT_EQ(environment.at(kChanged), "nothing");
  EXPECT_EQ(environment.at("at the end: gpu_other_processes"), process_count(1, true));
}

TEST(Changes, include_what_can_no_longer_be_read) {
  Strings environment = before();
  add_changes(environment, {});
  EXPECT_EQ(environment.at("at the end: cpu_governor"), "not known");
  EXPECT_NE(environment.at(kChanged).find("cpu_governor"), std::string::npos);
}

TEST(Changes, are_looked_for_in_what_the_environment_began_with) {
  const Strings environment = capture_machine(c10::Device(c10::kCPU)).environment;
  for (const auto& [key, value] : machine_state(c10::Device(c10::kCPU))) {
    EXPECT_TRUE(environment.contains(key)) << key;
  }
}

TEST(Graphics, says_of_a_count_of_processes_that_a_container_made_it) {
  EXPECT_EQ(process_count(3, false), "3");
  EXPECT_EQ(process_count(3, true), "3 seen from a container");
  EXPECT_TRUE(is_count_of_container(process_count(0, true)));
  EXPECT_FALSE(is_count_of_container("0"));
}

TEST(Graphics, names_the_clocks_policy_only_where_both_clocks_are_known) {
  EXPECT_EQ(clock_policy(1980, 1980), "default");
  EXPECT_EQ(clock_policy(1410, 1980), "set to 1410 MHz");
  EXPECT_EQ(clock_policy(std::nullopt, 1980), "");
  EXPECT_EQ(clock_policy(1980, std::nullopt), "");
}

TEST(Processor, names_the_clocks_policy_as_far_as_linux_shows_it) {
  EXPECT_EQ(cpu_clock_policy({{"cpu_governor", "powersave"}, {"cpu_turbo", "on"}}),
            "governor powersave, turbo on");
  EXPECT_EQ(cpu_clock_policy({{"cpu_turbo", "off"}}), "turbo off");
  EXPECT_EQ(cpu_clock_policy({{"kernel", "Linux 6"}}), "");
}

}  // namespace
}  // namespace noisemark::suite
