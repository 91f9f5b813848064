#include "suite/environment/processor_pace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "suite/environment/processor.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

/// A file system with what Linux would show.
class ProcessorPace : public testing::Test {
 protected:
  ProcessorPace() : root_(fs::path(testing::TempDir()) / ("pace_" + std::to_string(getpid()))) {}
  ~ProcessorPace() override { fs::remove_all(root_); }

  void write(const fs::path& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  [[nodiscard]] std::string value(const std::string& key) const {
    const reports::Strings all = processor_pace(root_);
    const auto found = all.find(key);
    return found == all.end() ? "left out" : found->second;
  }

  fs::path root_;
};

TEST_F(ProcessorPace, is_empty_where_linux_shows_nothing) {
  EXPECT_TRUE(processor_pace(root_).empty());
}

TEST_F(ProcessorPace, names_the_limits_of_the_clock_and_the_clock) {
  write("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "intel_pstate\n");
  write("sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq", "2500000\n");
  write("sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "2500000\n");
  write("sys/devices/system/cpu/cpu0/cpufreq/energy_performance_preference", "performance\n");
  write("proc/cpuinfo", "processor : 0\ncpu MHz\t\t: 2499.998\nprocessor : 1\ncpu MHz : 800.0\n");
  EXPECT_EQ(value("cpu_frequency_driver"), "intel_pstate");
  EXPECT_EQ(value("cpu_frequency_min_khz"), "2500000");
  EXPECT_EQ(value("cpu_frequency_max_khz"), "2500000");
  EXPECT_EQ(value("cpu_energy_preference"), "performance");
  EXPECT_EQ(value("cpu_clock_mhz"), "2499.998");
}

TEST_F(ProcessorPace, counts_how_often_heat_or_a_quota_slowed_it_down) {
  write("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n");
  write("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "4\n");
  write("sys/devices/system/cpu/cpufreq/other", "x");
  EXPECT_EQ(value("cpu_thermal_throttles"), "7");
  EXPECT_EQ(value("cpu_quota_throttles"), "left out");
  write("sys/fs/cgroup/cpu/cpu.stat", "nr_periods 9\nnr_throttled 5\n");
  EXPECT_EQ(value("cpu_quota_throttles"), "5") << "of version 1";
  write("sys/fs/cgroup/cpu.stat", "usage_usec 1\nnr_periods 9\nnr_throttled 6\n");
  EXPECT_EQ(value("cpu_quota_throttles"), "6");
}

TEST_F(ProcessorPace, tells_the_time_that_other_machines_took) {
  const int64_t ticks = sysconf(_SC_CLK_TCK);
  write("proc/stat", "cpu  1 2 3 4 5 6 7 " + std::to_string(ticks * 5 / 2) + " 0 0\ncpu0 1 1\n");
  EXPECT_EQ(value("cpu_steal_s"), "2.50");
  write("proc/stat", "cpu  1 2 3\n");
  EXPECT_EQ(value("cpu_steal_s"), "left out") << "of an old kernel";
}

TEST_F(ProcessorPace, names_which_processors_may_be_used) {
  write("proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,8\n");
  write("sys/devices/system/cpu/isolated", "\n");
  write("sys/devices/system/node/online", "0-1\n");
  write("proc/sys/kernel/randomize_va_space", "2\n");
  write("proc/meminfo", "MemTotal: 9 kB\nSwapTotal:  2 kB\n");
  EXPECT_EQ(value("cpus_allowed"), "0-3,8");
  EXPECT_EQ(value("cpus_isolated"), "left out") << "none is";
  EXPECT_EQ(value("numa_nodes"), "0-1");
  EXPECT_EQ(value("aslr"), "2");
  EXPECT_EQ(value("swap_bytes"), "2048");
}

TEST_F(ProcessorPace, of_this_machine_is_part_of_what_a_result_says_of_it) {
  const reports::Strings environment = processor_environment();
  const reports::Strings here = processor_pace();
  EXPECT_TRUE(here.contains("cpus_allowed"));
  for (const auto& [key, value] : here) EXPECT_TRUE(environment.contains(key)) << key;
}

}  // namespace
}  // namespace noisemark::suite
