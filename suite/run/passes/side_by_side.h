#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "memopt/modes/planned_mode.h"
#include "suite/io/safetensors.h"
#include "suite/run/passes/session.h"
#include "suite/run/passes/watch.h"

namespace noisemark::suite {

/// SHA-256 of every tensor of one step: "loss", "gradient.NAME" before clipping, "weight.NAME"
/// after the step. It covers name, type, shape and bytes.
using StepDigests = std::vector<std::pair<std::string, std::string>>;

/// The record of one of the trainings in the compared steps.
struct Evidence {
  std::vector<double> step_s;        ///< times of every round, digests not counted
  std::vector<StepDigests> digests;  ///< one for each of SideBySide::compared
  NamedTensors gradients;            ///< gradients of the first round, on the CPU
  /// One for each of SideBySide::compared: why the step did not follow the plan of a memory mode
  /// from beginning to end; empty where it did. "none" has no plan.
  std::vector<std::string> not_followed;
};

/// Three trainings of one definition in one process: a memory mode, mode "none", and "none" again.
struct SideBySide {
  std::vector<int64_t> compared;  ///< rounds that have digests: 1, 2 and 10
  Evidence mode;
  Evidence none;
  Evidence none_again;
  /// Was made after the last round, first steps included. A budget of all bytes is not judged.
  memopt::PlannedModeReport mode_report;
};

/// Begins in a state in which every parameter is perturbed, so that no weight is 0 or 1, and trains
/// until the mode follows its plan (or should long have done so), alone, so that it plans by its
/// own memory; then lets two sessions of mode "none" catch up; then trains all three for 10 rounds
/// in turns whose order rotates. All other things are those of `options`; algorithms are
/// deterministic where the device has such. Throws Interrupted, and OutOfMemory with who held what.
[[nodiscard]] SideBySide train_side_by_side(const SessionOptions& options, const PassWatch& watch);

}  // namespace noisemark::suite
