#pragma once

#include <filesystem>

#include "reports/result.h"

namespace noisemark::suite {

/// What Linux says of how freely the processors run, below `root` (of the file system; tests have
/// their own). What it does not show is left out.
///
///   cpu_frequency_driver, cpu_frequency_{min,max}_khz   of the first processor; equal: locked
///   cpu_energy_preference                               of drivers that choose the clock
///   themselves cpu_clock_mhz, cpu_steal_s                          now; taken by other machines
///   since the boot cpu_thermal_throttles, cpu_quota_throttles          how often, since the boot,
///   heat slowed a
///                                                       processor down, and the control group's
///                                                       share of time stopped all threads
///   cpus_allowed, cpus_isolated, numa_nodes             lists: "0-3,8"
///   aslr, clocksource, swap_bytes
[[nodiscard]] reports::Strings processor_pace(const std::filesystem::path& root = "/");

}  // namespace noisemark::suite
