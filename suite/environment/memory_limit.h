#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

/// How much memory the kernel lets this process have, and whether it ended one for taking more.
/// `root` is where /proc and /sys are, for tests. Control groups of version 1 and 2 (Linux,
/// admin-guide/cgroup-v1/memory and cgroup-v2).
namespace noisemark::suite {

/// What this process can never hold at once, whatever else there is: the least of the machine's
/// memory with swap and of the limits, with swap, of the process's control group and of those above
/// it, less what the process itself holds now (its anonymous pages). What else the machine holds
/// does not count, because that may go: a smaller amount may still not fit. Empty where the system
/// does not say.
[[nodiscard]] std::optional<int64_t> memory_limit_bytes(const std::filesystem::path& root = "/");

/// Processes of this one's control group that the kernel ended for want of memory so far; empty
/// where the group has no such count, as the root group.
[[nodiscard]] std::optional<int64_t> processes_ended_for_memory(
    const std::filesystem::path& root = "/");

}  // namespace noisemark::suite
