#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reports/base/error.h"
#include "suite/parallel/group.h"
#include "suite/parallel/rank.h"
#include "suite/run/spec/options.h"
#include "suite/run/spec/plan.h"

/// One run by several processes, the ranks. They are this program with the same arguments, told
/// apart by variables of their environment.
namespace noisemark::suite {

/// Returns the rank that this process is by its environment (suite/parallel/rank.h); empty for
/// none.
[[nodiscard]] std::optional<Rank> own_rank();

/// The options of a rank, whose number of ranks is that of its environment. Throws Error, exit code
/// 2, when --ranks says another one.
[[nodiscard]] RunOptions options_of_rank(RunOptions options, const Rank& rank);

/// Throws Error, exit code 2, for what several ranks cannot do: share a GPU, divide a batch
/// unequally, look for the largest batch, or, started as `rank`, make several runs; and for what
/// one process cannot: round or share out what it exchanges with nobody.
void require_possible(const RunOptions& options, const std::vector<PlannedRun>& plans,
                      const std::optional<Rank>& rank);

/// Starts --ranks processes on this machine and waits for them. When one is lost or rank 0 ends,
/// those that do not end by themselves within --timeout are killed, and one that is stopped at
/// once. Returns the exit code of rank 0, which writes the result: it ends well only with what all
/// found, and another rank that is lost afterwards changes nothing. The first that a signal ends
/// before is named on standard error.
[[nodiscard]] ExitCode launch_ranks(const RunOptions& options, const PlannedRun& plan,
                                    const std::filesystem::path& out);

/// The same for another command, whose whole command line is `argv`.
[[nodiscard]] ExitCode launch_ranks(const std::vector<std::string>& argv, int64_t ranks,
                                    double timeout_s);

/// Joins the group, to compute on `device`, and does there what a rank does. What ends it early it
/// tells the others; rank 0 throws it on, and another rank, of which rank 0 says why it failed,
/// returns its code.
[[nodiscard]] ExitCode as_rank(
    const Rank& rank, c10::Device device, double timeout_s,
    const std::function<ExitCode(const std::shared_ptr<Group>&)>& action);

/// Makes this rank's part of the run. Rank 0 writes the result into `out` and throws what ends it
/// early; of another rank rank 0 says why it failed.
[[nodiscard]] ExitCode run_rank(const RunOptions& options, const PlannedRun& plan,
                                const std::filesystem::path& out, const Rank& rank);

}  // namespace noisemark::suite
