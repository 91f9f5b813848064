#include "suite/environment/memory_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <string>

namespace noisemark::suite {
namespace {

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
