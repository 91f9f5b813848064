#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "reports/compare/comparison.h"
#include "reports/compare/sides.h"

namespace noisemark::reports {

struct PromoteOptions {
  std::filesystem::path into = "baselines/results";  ///< must exist
  std::string hardware;                              ///< folder; empty: hardware_folder()
  bool force = false;                                ///< replace the runs of a cell
};

struct Promotion {
  std::vector<std::filesystem::path> written;
  std::vector<std::filesystem::path> removed;
  std::string text;  ///< text for people: what was done, each baseline, what to do next
};

/// Keeps runs as baselines: copies every result.json, byte for byte, and the events.mlog beside it,
/// without which check() would find fault, and writes baseline.md beside them, a page for a
/// reviewer. All or nothing is refused: nothing is written before everything was
/// checked. Throws Error (bad input) and says why: something is wrong with a result (check()), a
/// cell makes no baseline, a cell has runs there already and `force` was not given, what is there
/// is a link or has one, `into` is no folder; and («baseline needed», exit code 5) for a gated
/// figure that is zero, negative or has no value in any run. Removes what a killed promotion of the
/// same cell left.
[[nodiscard]] Promotion promote_baseline(const std::vector<std::string>& paths,
                                         const PromoteOptions& options);

/// The baselines below `path`, for people. Throws Error («baseline needed», exit code 5) when there
/// is none, and as promote_baseline() for runs that make none.
[[nodiscard]] std::string show_baselines(const std::string& path);

// A baseline is several whole results of one cell and one identity, kept under version control:
//   HARDWARE/BENCHMARK@SCALE/MODE-BASELINE-PRECISION-DEVICE/RUN/result.json

/// "intel-xeon-processor-2-threads", "nvidia-h200": a folder's name for what it ran on.
[[nodiscard]] std::string hardware_folder(const Identity& identity);

/// "gmm16-ho@cpu/none-plain-fp32-cpu": below the folder of the hardware.
[[nodiscard]] std::string cell_folder(const Identity& identity);

}  // namespace noisemark::reports
