#pragma once

#include <filesystem>

#include "suite/run/plan.h"
#include "suite/run/run.h"

namespace noisemark::suite {

/// Runs one plan of several in a process of its own (this very program), so that no run inherits
/// another's memory, caches or settings. Standard output and error are shared, and an interrupt of
/// this process, which must hold an InterruptGuard, goes on to it. Returns its exit code; kInternal
/// when it was killed by a signal.
[[nodiscard]] ExitCode run_in_child(const RunOptions& options, const PlannedRun& plan,
                                    const std::filesystem::path& out);

/// The arguments that make `noisemark` run exactly this plan, after the program's name.
[[nodiscard]] std::vector<std::string> child_arguments(const RunOptions& options,
                                                       const PlannedRun& plan,
                                                       const std::filesystem::path& out);

}  // namespace noisemark::suite
