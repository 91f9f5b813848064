#include "suite/environment/processor.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <string>

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

namespace fs = std::filesystem;

constexpr int64_t kKib = 1024;
constexpr int64_t kMib = 1024 * kKib;

/// A machine of 1000 MiB and 100 MiB of swap, on which this process holds 50 MiB.
class MemoryLimit : public testing::Test {
 protected:
  MemoryLimit() : root_(fs::path(testing::TempDir()) / ("machine_" + std::to_string(getpid()))) {
    write("proc/meminfo", "MemTotal:        1024000 kB\nMemFree: 5 kB\nSwapTotal:  102400 kB\n");
    write("proc/self/status", "Name:\tnoisemark\nRssAnon:\t   51200 kB\nRssFile:\t 900000 kB\n");
  }
  ~MemoryLimit() override { fs::remove_all(root_); }

  void write(const fs::path& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  [[nodiscard]] std::optional<int64_t> limit_mib() const {
    const auto bytes = memory_limit_bytes(root_);
    if (!bytes) return std::nullopt;
    EXPECT_EQ(*bytes % kMib, 0);
    return *bytes / kMib;
  }

  fs::path root_;
};

TEST_F(MemoryLimit, is_the_machines_memory_with_swap_less_what_the_process_holds) {
  EXPECT_EQ(limit_mib(), 1000 + 100 - 50);
  write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(limit_mib(), 1000 + 100 - 50) << "the root group has no limit";
}

TEST_F(MemoryLimit, is_the_least_of_the_control_group_and_those_above_it) {
  write("proc/self/cgroup", "0::/slice/run\n");
  write("sys/fs/cgroup/slice/run/memory.max", "max\n");
  EXPECT_EQ(limit_mib(), 1050);
  write("sys/fs/cgroup/slice/run/memory.max", std::to_string(800 * kMib) + "\n");
  write("sys/fs/cgroup/slice/run/memory.swap.max", "max\n");
  EXPECT_EQ(limit_mib(), 800 + 100 - 50);
  write("sys/fs/cgroup/slice/run/memory.swap.max", "0\n");
  EXPECT_EQ(limit_mib(), 800 - 50);
  write("sys/fs/cgroup/slice/memory.max", std::to_string(400 * kMib) + "\n");
  write("sys/fs/cgroup/slice/memory.swap.max", std::to_string(10 * kMib) + "\n");
  EXPECT_EQ(limit_mib(), 400 + 10 - 50);
}

TEST_F(MemoryLimit, of_a_container_that_sees_its_group_as_the_root) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", std::to_string(300 * kMib) + "\n");
  write("sys/fs/cgroup/memory.swap.max", "0\n");
  EXPECT_EQ(limit_mib(), 300 - 50);
}

TEST_F(MemoryLimit, of_control_groups_of_version_1) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/jobs\n4:memory:/jobs/one\n0::/other\n");
  const std::string group = "sys/fs/cgroup/memory/jobs/one/";
  write(group + "memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limit_mib(), 1050) << "that is none";
  write(group + "memory.limit_in_bytes", std::to_string(500 * kMib) + "\n");
  EXPECT_EQ(limit_mib(), 500 + 100 - 50);
  write(group + "memory.memsw.limit_in_bytes", std::to_string(520 * kMib) + "\n");
  EXPECT_EQ(limit_mib(), 520 - 50);
  // Docker shows the host's path, and mounts the container's group as the root.
  fs::remove_all(root_ / "sys/fs/cgroup/memory/jobs");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(200 * kMib) + "\n");
  write("sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", std::to_string(200 * kMib) + "\n");
  EXPECT_EQ(limit_mib(), 200 - 50);
}

TEST_F(MemoryLimit, is_unknown_where_nothing_says_it) {
  fs::remove_all(root_ / "proc");
  EXPECT_EQ(limit_mib(), std::nullopt);
}

TEST_F(MemoryLimit, of_this_machine_is_more_than_this_process_holds) {
  const auto here = memory_limit_bytes();
  ASSERT_TRUE(here.has_value());
  EXPECT_GT(*here, 0);
}

TEST_F(MemoryLimit, counts_processes_that_the_kernel_ended) {
  EXPECT_EQ(processes_ended_for_memory(root_), std::nullopt);
  write("proc/self/cgroup", "0::/run\n");
  EXPECT_EQ(processes_ended_for_memory(root_), std::nullopt);
  write("sys/fs/cgroup/run/memory.events", "low 0\nhigh 7\nmax 9\noom 4\noom_kill 2\n");
  EXPECT_EQ(processes_ended_for_memory(root_), 2);
  write("proc/self/cgroup", "4:memory:/jobs\n");
  write("sys/fs/cgroup/memory/jobs/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
  EXPECT_EQ(processes_ended_for_memory(root_), 3);
}

}  // namespace
}  // namespace noisemark::suite
