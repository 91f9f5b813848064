#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "suite/run/plan.h"
#include "suite/run/run.h"

namespace noisemark::suite {

/// Runs one plan of several in a process of its own (this very program), so that no run inherits
/// another's memory, caches or settings. Standard output and error are shared, and an interrupt of
/// this process, which must hold an InterruptGuard, goes on to it. Returns its exit code, or that
/// of end_of_child() when it was killed by a signal, which is then said on standard error.
[[nodiscard]] ExitCode run_in_child(const RunOptions& options, const PlannedRun& plan,
                                    const std::filesystem::path& out);

/// What a process's end means to the one that waited for it.
struct ChildEnd {
  ExitCode code = ExitCode::kPass;
  std::string words;  ///< for standard error, empty: nothing to say
};

/// Of `wait_status` as waitpid() gives it. `ended_for_memory`: meanwhile the kernel ended a process
/// of this one's control group for want of memory. Without that a SIGKILL may still have been the
/// kernel's: then it is kInternal, and said.
[[nodiscard]] ChildEnd end_of_child(int wait_status, bool ended_for_memory);

/// The arguments that make `noisemark` run exactly this plan, after the program's name.
[[nodiscard]] std::vector<std::string> child_arguments(const RunOptions& options,
                                                       const PlannedRun& plan,
                                                       const std::filesystem::path& out);

}  // namespace noisemark::suite
