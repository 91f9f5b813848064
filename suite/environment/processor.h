#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/result/result.h"

/// Reads what Linux says about processors and memory. `root` is where /proc and /sys are, for
/// tests. Limits of memory are those of control groups of version 1 and 2 (Linux,
/// admin-guide/cgroup-v1/memory and cgroup-v2).
namespace noisemark::suite {

/// Counts the processors that this process may use; 0 where that cannot be known.
[[nodiscard]] int allowed_processors();

/// cpu_model, cpu_isa, onednn_isa, cpu_cores, cpu_threads, memory_gib; cpu_clocks where it is
/// known.
[[nodiscard]] reports::Strings processor_identity();

/// Frequency governor, turbo, memory in bytes, control-group limits, load, kernel, C library, and
/// what processor_pace() says.
[[nodiscard]] reports::Strings processor_environment();

/// Throws std::system_error where the system does not let this process have so many threads more at
/// once. OpenMP asks for its threads late, and ends the process without a word when there are none.
void require_threads(int64_t threads);

/// The clocks policy: "governor performance, turbo off"; empty where Linux shows neither.
[[nodiscard]] std::string cpu_clock_policy(const reports::Strings& environment);

/// The instruction set that oneDNN's dispatcher takes on a processor with these /proc/cpuinfo
/// flags, capped by ONEDNN_MAX_CPU_ISA (`cap`, empty: none). LibTorch hides oneDNN's own answer.
[[nodiscard]] std::string onednn_isa(const std::vector<std::string>& cpu_flags,
                                     std::string_view cap);

/// Returns what Linux says of how freely the processors run, below `root` (of the file system;
/// tests have their own). What it does not show is left out.
///
///   cpu_frequency_driver, cpu_frequency_{min,max}_khz   first processor; equal limits: locked
///   cpu_energy_preference                               drivers that choose the clock themselves
///   cpu_clock_mhz                                       now
///   cpu_steal_s                                         taken by other machines since the boot
///   cpu_thermal_throttles                               slow-downs by heat since the boot
///   cpu_quota_throttles                                 stops by the control group's share of time
///   cpus_allowed, cpus_isolated, numa_nodes             lists: "0-3,8"
///   aslr, clocksource, swap_bytes
[[nodiscard]] reports::Strings processor_pace(const std::filesystem::path& root = "/");

/// Returns what this process can never hold at once, whatever else there is: the least of the
/// machine's memory with swap and of the limits, with swap, of the process's control group and of
/// those above it, less what the process itself holds now (its anonymous pages). What else the
/// machine holds does not count, because that may go: a smaller amount may still not fit. It is
/// empty where the system does not say.
[[nodiscard]] std::optional<int64_t> memory_limit_bytes(const std::filesystem::path& root = "/");

/// Counts the processes of this one's control group that the kernel ended for want of memory so
/// far; empty where the group has no such count, as the root group.
[[nodiscard]] std::optional<int64_t> processes_ended_for_memory(
    const std::filesystem::path& root = "/");

}  // namespace noisemark::suite
