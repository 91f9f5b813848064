#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reports/compare/find_runs.h"
#include "reports/result.h"
#include "reports/table.h"

/// From two paths to pairs of runs.
namespace noisemark::reports {

/// Where `noisemark baseline promote` keeps runs: ROOT/HARDWARE/BENCHMARK@SCALE/VARIANT/RUN, with a
/// page baseline.md beside them.
struct BaselinePlace {
  std::string root;
  std::string hardware;
  bool operator==(const BaselinePlace&) const = default;
};

/// One side of a comparison.
struct Side {
  std::string name;  ///< as given by the user
  std::vector<NamedResult> runs;
  std::vector<LostRun> lost = {};              ///< that should be here
  std::vector<std::string> left_out = {};      ///< results that are of no run of their suite
  std::optional<BaselinePlace> baseline = {};  ///< of all its runs
};

/// `path` is a result.json, a report.md that lies beside its result.json, or a folder of results.
/// Of a suite's folder only the results of its runs. Throws Error (bad input): nothing there, a
/// folder that cannot be read, a changed result, a report of another result, a run twice, a time of
/// creation that is none.
[[nodiscard]] Side read_side(const std::string& path);

/// The runs of several such paths. Throws Error (bad input) likewise, and where no run of them left
/// a result.
[[nodiscard]] Side read_runs(const std::vector<std::string>& paths);

/// BASE and NEW. Throws Error: bad input as above, when both are the same place, and when a run was
/// made in the future, by this machine's clock; «baseline needed» (exit code 5) when there is no
/// result at `base`.
[[nodiscard]] std::pair<Side, Side> read_sides(const std::string& base,
                                               const std::string& candidate);

/// What cells are told apart by: "gmm16-ho@cpu, mode none, baseline plain, fp32, cpu", and the
/// framework unless it is noisemark.
[[nodiscard]] std::string cell_name(const Identity& identity);

using RunPair = std::pair<const NamedResult*, const NamedResult*>;  ///< base, candidate

struct Cell {
  std::string name;
  std::vector<RunPair> pairs;  ///< by seed, then by time of creation
};

/// A cell on both sides that has no seed in common.
struct CellWithoutPairs {
  std::string name;
  std::string base_seeds;  ///< "1, 2, 3": each once, rising
  std::string candidate_seeds;
};

struct Cells {
  std::vector<Cell> both;  ///< with at least one pair
  std::vector<CellWithoutPairs> without_pairs;
  std::vector<std::string> only_base;       ///< on one side only
  std::vector<std::string> only_candidate;  ///< likewise
  std::vector<std::string> unpaired;        ///< runs without a partner
};

/// Runs of a cell are paired within equal seeds in the order of their creation, as rounds were
/// made. The sides must outlive the pairs. Throws Error (bad input) when a run is on both sides.
[[nodiscard]] Cells pair_runs(const Side& base, const Side& candidate);

}  // namespace noisemark::reports
