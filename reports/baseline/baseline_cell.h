#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/compare/comparison.h"
#include "reports/compare/sides.h"

/// A baseline is several whole results of one cell and one identity, kept under version control:
///   HARDWARE/BENCHMARK@SCALE/MODE-BASELINE-PRECISION-DEVICE/RUN/result.json
namespace noisemark::reports {

struct BaselineCell {
  std::string name;                      ///< cell_name()
  std::vector<const NamedResult*> runs;  ///< by seed, then by time of creation
};

/// The cells of these runs, by name. Throws Error (bad input) for a cell that makes no baseline,
/// and says why: too few runs; runs of several identities, with the fields that differ; a run that
/// did not pass, was custom, or trained on unofficial data; figures without noise that differ
/// between runs of one seed; a gated figure that only some runs have. Throws Error («baseline
/// needed», exit code 5) for one that is zero, negative or has no value in any run.
[[nodiscard]] std::vector<BaselineCell> baseline_cells(const Side& side);

/// What a reviewer should know though it is no reason to refuse: changes that were not committed,
/// several commits. One sentence each.
[[nodiscard]] std::vector<std::string> flags_of(const BaselineCell& cell);

/// "intel-xeon-processor-2-threads", "nvidia-h200": a folder's name for what it ran on.
[[nodiscard]] std::string hardware_folder(const Identity& identity);

/// "gmm16-ho@cpu/none-plain-fp32-cpu": below the folder of the hardware.
[[nodiscard]] std::string cell_folder(const Identity& identity);

}  // namespace noisemark::reports
