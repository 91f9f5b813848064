#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "suite/run/child_run.h"
#include "suite/run/plan.h"
#include "suite/run/run.h"

namespace noisemark::suite {

/// One of several runs of a command, each in a process of its own.
struct SeriesRun {
  std::string name;  ///< of its folder, below that of the series
  RunOptions options;
  /// Empty: it cannot be planned, and ends with `refused` without a process.
  std::optional<PlannedRun> plan;
  Variables environment;  ///< what its process has beside this one's
  ExitCode refused = ExitCode::kBadInput;
};

/// How the runs of a series ended.
struct SeriesEnd {
  std::vector<std::optional<ExitCode>> codes;  ///< in their order; empty: not begun
  bool stopped = false;                        ///< by an interrupt
};

/// Makes the runs one after another below `out`, which prepare_suite_folder() has made ready, and
/// writes suite.json before and report.md after them: only what these runs left counts. With
/// `resume`, those that are finished stay as they are and the others are continued or begun. An
/// interrupt ends the run that goes on, as it ends any, and the series after it. `title` says of
/// what series the folder is: one with another title is not continued. Throws Error, exit code 3,
/// for that, and where a folder holds a run of something else.
[[nodiscard]] SeriesEnd run_series(const std::string& title, const std::vector<SeriesRun>& runs,
                                   const std::filesystem::path& out, bool resume);

/// Of all runs, and of the interrupt.
[[nodiscard]] ExitCode worst_of(const SeriesEnd& end);

/// The one that outweighs the other when several runs end differently: a red run outweighs one that
/// could not run, which outweighs a pass; of equals `a`.
[[nodiscard]] ExitCode worse(ExitCode a, ExitCode b);

}  // namespace noisemark::suite
