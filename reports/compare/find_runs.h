#pragma once

#include <filesystem>
#include <string>
#include <vector>

/// Which runs a folder holds, and which it should hold and does not.
namespace noisemark::reports {

/// A run that was planned or begun and left no result of its own.
struct LostRun {
  std::string name;      ///< its folder, below the one that was given
  std::string why;       ///< "it left no result"
  bool skipped = false;  ///< it cannot run here, which is no failure
};

struct FoundRuns {
  std::vector<std::filesystem::path> folders;  ///< with a result.json, by name
  std::vector<LostRun> lost;                   ///< by name
  std::vector<std::string> left_out;           ///< results that are of no run of the suite there
};

/// Of `folder` itself or, where it holds no result.json, of all folders below it. Where there is a
/// suite.json it says which results are of its runs: one that lay there before is none. A run that
/// was begun is known by its events.mlog, or by an empty folder. Throws Error (bad input) for a
/// folder that cannot be read.
[[nodiscard]] FoundRuns find_runs(const std::filesystem::path& folder);

}  // namespace noisemark::reports
