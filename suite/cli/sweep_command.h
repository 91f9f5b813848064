#pragma once

#include "suite/cli/arguments.h"
#include "suite/run/run.h"

namespace noisemark::suite {

/// `noisemark sweep`: `options` as for a run of one benchmark, the axes from `arguments`. Returns
/// the exit code of run_sweep().
[[nodiscard]] ExitCode sweep(const Arguments& arguments, const RunOptions& options);

}  // namespace noisemark::suite
