#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "reports/base/error.h"
#include "reports/result/result.h"
#include "suite/environment/energy.h"
#include "suite/run/folder/event_log.h"
#include "suite/run/folder/output_folder.h"
#include "suite/run/passes/session.h"
#include "suite/run/passes/training_pass.h"
#include "suite/run/passes/watch.h"
#include "suite/run/spec/options.h"
#include "suite/run/spec/plan.h"
#include "suite/train/fault.h"

namespace noisemark::suite {

/// The state that the passes of one run share: what was asked for, and what they found.
struct RunState {
  RunState(const RunOptions& options, const PlannedRun& plan, const SessionOptions& session,
           const OutputFolder& folder, const PassWatch& watch, EventLog& events);

  const RunOptions& options;
  const PlannedRun& plan;
  const SessionOptions& session;
  const OutputFolder& folder;
  const PassWatch& watch;
  EventLog& events;
  reports::Result result;
  TrainingOutcome training;
  EnergyUsed energy = {std::nullopt, "training did not begin", ""};
  std::string interrupted;  ///< place of the interrupt, in words; empty: none

  /// Says whether this process writes the result: it is alone, or rank 0.
  [[nodiscard]] bool writes() const { return !session.group || session.group->rank().rank == 0; }
};

/// One pass of a run. It fails by an exception, which ends the passes: Interrupted and NonFinite
/// end the run early, and any other one also ends the program.
struct RunPass {
  std::string_view event;  ///< its key in events.mlog; empty: it writes no pair of its own
  bool (*applies)(const RunState&);  ///< is asked when its turn comes
  void (*leave_empty)(RunState&);    ///< says in its sections why they are empty; may be null
  void (*make)(RunState&);           ///< fills its sections of the result
};

/// Every pass, in the order in which they are made. The profile is last: LibTorch's profiler leaves
/// CUPTI attached, which slows every later launch on a GPU.
[[nodiscard]] std::span<const RunPass> run_passes();

/// Says in every section that a pass fills why it is still empty.
void leave_all_empty(RunState& run);

/// Makes the passes that apply. Throws what ends the program; what ends the run early is noted in
/// `run`.
void make_passes(RunState& run);

/// Puts `section` into the result, but for what the training pass has to say.
void take_memory_section(RunState& run, reports::MemorySection section);

/// Runs one plan in this process: its passes in their order (run_passes()), then its gates. Writes
/// result.json, report.md, plots, events.mlog, weights.safetensors and, where the definition has an
/// average of the weights, ema.safetensors into `out` and prints the verdict. `fault` is for
/// self-tests: it breaks the run, whose title then says so. A run that ends early (interrupt, NaN)
/// still writes what it has, marked so; so does one that ends in an exception, which is then thrown
/// on.
/// In a group this process is rank 0; another rank makes run_other_rank().
[[nodiscard]] ExitCode run_single(const RunOptions& options, const PlannedRun& plan,
                                  const std::filesystem::path& out, const Fault& fault = {},
                                  const std::shared_ptr<Group>& group = nullptr);

/// Makes the passes of a run that all ranks make together, and hands rank 0 what it found. Writes
/// and prints nothing.
void run_other_rank(RunOptions options, const PlannedRun& plan,
                    const std::shared_ptr<Group>& group);

}  // namespace noisemark::suite
