#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reports/result.h"
#include "suite/run/plan.h"
#include "suite/train/checkpoint.h"

namespace noisemark::suite {

/// What a run is, so that it is continued as nothing else: of a plan on these data, and of a result
/// that the run left, finished or not.
[[nodiscard]] CheckpointKey run_key(const PlannedRun& plan,
                                    const std::vector<reports::DataFile>& data);
[[nodiscard]] CheckpointKey run_key(const reports::Result& result);

/// The result in a folder that is to be continued; empty without one. Throws Error: exit code 3
/// when it is not of the run `own` or not of this program, exit code 2 when it cannot be read.
[[nodiscard]] std::optional<reports::Result> earlier_result(const std::filesystem::path& folder,
                                                            const CheckpointKey& own);

/// The same for a plan whose data were not opened; empty also where the run is not finished
/// (reports/gate.h).
[[nodiscard]] std::optional<reports::Result> finished_result(const std::filesystem::path& folder,
                                                             const PlannedRun& plan);

/// Throws Error as require_checkpoint() does, and with exit code 3 when `mode` is lossy: a mode
/// first watches some passes, in which everything is kept, so after a restart gradients would be
/// exact that an uninterrupted run had rounded.
void require_continuable(const std::string& checkpoint, const CheckpointKey& own,
                         const std::string& mode);

/// Says on standard error that the checkpoints of a lossy mode are none to continue from.
void tell_of_checkpoints(const std::string& mode);

/// What --resume does with a finished run: says so and shows its verdict; writes a report only
/// where the run was killed before it had one. Returns the run's exit code.
[[nodiscard]] ExitCode leave_finished(const reports::Result& result,
                                      const std::filesystem::path& folder);

}  // namespace noisemark::suite
