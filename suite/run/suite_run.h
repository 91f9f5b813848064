#pragma once

#include <filesystem>
#include <vector>

#include "suite/run/plan.h"
#include "suite/run/run.h"

namespace noisemark::suite {

/// Runs the plans one after another, each in a process of its own, into
/// `out/BENCHMARK@SCALE/MODE-BASELINE-PRECISION`, and writes suite.json before and report.md after
/// them: only what these runs left counts. With `resume`, runs that are finished stay as they are
/// and the others are continued or begun. Returns the worst exit code, of the verdict on quality
/// too where the suite judges it.
[[nodiscard]] ExitCode run_suite(const RunOptions& options, const std::vector<PlannedRun>& plans,
                                 const std::filesystem::path& out);

/// What a suite ends with whose runs end with `worst` at the most and whose quality with `quality`:
/// the worse, where it is there to judge quality; else `noisemark quality` gates.
[[nodiscard]] ExitCode with_quality(ExitCode worst, ExitCode quality, bool judged);

}  // namespace noisemark::suite
