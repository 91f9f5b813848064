#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace noisemark::reports {

struct PromoteOptions {
  std::filesystem::path into = "baselines/results";  ///< must exist
  std::string hardware;                              ///< folder; empty: hardware_folder()
  bool force = false;                                ///< replace the runs of a cell
};

struct Promotion {
  std::vector<std::filesystem::path> written;
  std::vector<std::filesystem::path> removed;
  std::string text;  ///< for people: what was done, each baseline, what to do next
};

/// Keeps runs as baselines: copies every result.json, byte for byte, and the events.mlog beside it,
/// without which check() would find fault, and writes baseline.md beside them
/// (baseline_markdown()). All or nothing is refused: nothing is written before everything was
/// checked. Throws Error as baseline_cells(), and (bad input): something is wrong with a result
/// (check()), a cell has runs there already and `force` was not given, `into` is no folder.
[[nodiscard]] Promotion promote_baseline(const std::vector<std::string>& paths,
                                         const PromoteOptions& options);

/// The baselines below `path`, for people. Throws Error («baseline needed», exit code 5) when there
/// is none, and as baseline_cells().
[[nodiscard]] std::string show_baselines(const std::string& path);

}  // namespace noisemark::reports
