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
/// without which check() would find fault, and writes baseline.md beside them
/// (baseline_markdown()). All or nothing is refused: nothing is written before everything was
/// checked. Throws Error as baseline_cells(), and (bad input): something is wrong with a result
/// (check()), a cell has runs there already and `force` was not given, what is there is a link or
/// has one, `into` is no folder. Removes what a killed promotion of the same cell left.
[[nodiscard]] Promotion promote_baseline(const std::vector<std::string>& paths,
                                         const PromoteOptions& options);

/// The baselines below `path`, for people. Throws Error («baseline needed», exit code 5) when there
/// is none, and as baseline_cells().
[[nodiscard]] std::string show_baselines(const std::string& path);

// A baseline is several whole results of one cell and one identity, kept under version control:
//   HARDWARE/BENCHMARK@SCALE/MODE-BASELINE-PRECISION-DEVICE/RUN/result.json

struct BaselineCell {
  std::string name;                      ///< cell_name()
  std::vector<const NamedResult*> runs;  ///< runs in the order of seed, then of creation
};

/// The cells of these runs, by name. Throws Error (bad input) for a cell that makes no baseline,
/// and says why: too few runs; runs of several identities, with the fields that differ; a run that
/// did not pass, was custom, or trained on unofficial data; figures without noise that differ
/// between runs of one seed; a gated figure that only some runs have. Throws Error («baseline
/// needed», exit code 5) for one that is zero, negative or has no value in any run.
[[nodiscard]] std::vector<BaselineCell> baseline_cells(const Side& side);

/// Says what a reviewer should know though it is no reason to refuse: changes that were not
/// committed, several commits. One sentence each.
[[nodiscard]] std::vector<std::string> flags_of(const BaselineCell& cell);

/// "intel-xeon-processor-2-threads", "nvidia-h200": a folder's name for what it ran on.
[[nodiscard]] std::string hardware_folder(const Identity& identity);

/// "gmm16-ho@cpu/none-plain-fp32-cpu": below the folder of the hardware.
[[nodiscard]] std::string cell_folder(const Identity& identity);

/// A baseline for a reviewer: its runs with commit, date and seed, the gated figures and how far
/// runs differ, what to know, and what so many runs can judge. A pure function, byte for byte.
[[nodiscard]] std::string baseline_markdown(const BaselineCell& cell);

}  // namespace noisemark::reports
