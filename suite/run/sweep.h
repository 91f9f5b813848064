#pragma once

#include <vector>

#include "suite/run/run.h"
#include "suite/run/sweep_axes.h"

namespace noisemark::suite {

/// Trains one benchmark at every combination of the axes' values, each in a process of its own,
/// into `out/KEY=VALUE[,KEY=VALUE...]`. Prints a table with a row for every cell, which is also
/// written to `out/sweep.md`; suite.json and report.md are those of any several runs. A cell that
/// cannot be planned or fails is a row with its exit code, and the others go on. Returns the worst
/// exit code, where out of memory counts as a pass: a sweep is made to find where that is. Throws
/// Error, exit code 2, where the options cannot be had together or not one cell can be planned, and
/// as run_series() does.
[[nodiscard]] ExitCode run_sweep(const RunOptions& options, const std::vector<SweepAxis>& axes);

}  // namespace noisemark::suite
