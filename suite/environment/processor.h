#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/result.h"

/// What Linux says about processors and memory.
namespace noisemark::suite {

/// How many this process may use; 0 where that cannot be known.
[[nodiscard]] int allowed_processors();

/// cpu_model, cpu_isa, onednn_isa, cpu_cores, cpu_threads, memory_gib; cpu_clocks where it is
/// known.
[[nodiscard]] reports::Strings processor_identity();

/// Frequency governor, turbo, memory in bytes, control-group limits, load, kernel, C library, and
/// what processor_pace() says.
[[nodiscard]] reports::Strings processor_environment();

/// The clocks policy: "governor performance, turbo off"; empty where Linux shows neither.
[[nodiscard]] std::string cpu_clock_policy(const reports::Strings& environment);

/// The instruction set that oneDNN's dispatcher takes on a processor with these /proc/cpuinfo
/// flags, capped by ONEDNN_MAX_CPU_ISA (`cap`, empty: none). LibTorch hides oneDNN's own answer.
[[nodiscard]] std::string onednn_isa(const std::vector<std::string>& cpu_flags,
                                     std::string_view cap);

}  // namespace noisemark::suite
