#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "suite/run/plan.h"
#include "suite/run/run.h"

namespace noisemark::suite {

/// Of a process's environment, by name.
using Variables = std::map<std::string, std::string>;

/// Runs one plan of several in a process of its own (this very program), so that no run inherits
/// another's memory, caches or settings. Standard output and error are shared, and an interrupt of
/// this process, which must hold an InterruptGuard, goes on to it. `variables` are set in its
/// environment, which is this process's otherwise. Returns its exit code, or that of end_of_child()
/// when it was killed by a signal, which is then said on standard error.
[[nodiscard]] ExitCode run_in_child(const RunOptions& options, const PlannedRun& plan,
                                    const std::filesystem::path& out,
                                    const Variables& variables = {});

/// This process's environment with these variables in place of those of their names: "NAME=VALUE".
[[nodiscard]] std::vector<std::string> environment_with(const Variables& variables);

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
