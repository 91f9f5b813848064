#pragma once

#include <exception>
#include <optional>
#include <string>

#include "memopt/planned_mode.h"
#include "reports/gate.h"
#include "reports/result.h"
#include "suite/run/event_log.h"
#include "suite/run/pass_watch.h"
#include "suite/run/session.h"
#include "suite/train/checkpoint.h"

namespace noisemark::suite {

struct TrainingPassOptions {
  SessionOptions session;
  std::string checkpoint_path;   ///< empty: none
  int64_t checkpoint_every = 0;  ///< steps; 0: never
  bool resume = false;           ///< start from checkpoint_path where it exists
  CheckpointKey checkpoint_key;
  std::string weights_path;    ///< where the trained weights go, empty: nowhere
  std::string average_path;    ///< where their average goes, if there is one; empty: nowhere
  EventLog* events = nullptr;  ///< not owned; told of the run and of evaluations
};

struct TrainingOutcome {
  TrainingProgress progress;
  reports::Quality quality;
  reports::Determinism determinism;
  reports::Finiteness finiteness;
  reports::TrainingMemory memory;
  int64_t parameters = 0;
  int64_t resumed_at_step = 0;
  std::optional<int64_t> skipped_steps;  ///< by loss scaling; empty without it
  std::optional<double> loss_scale;      ///< after the last step; empty without it
  memopt::PlannedModeReport mode;        ///< what the memory mode did, since a resumption
  bool interrupted = false;
  std::exception_ptr error;  ///< what else ended it early; empty without
};

/// How many evaluations a training of `steps` makes after more than `done` of them, where one is
/// due every `every` steps (0: never) and at the end.
[[nodiscard]] int64_t evaluations_after(int64_t done, int64_t steps, int64_t every);

/// The timed pass: trains all steps, evaluates at the start, every `eval.every` steps and at the
/// end, writes checkpoints, the final weights and their average. A NaN, an interrupt or an error
/// ends it early and is told in the outcome; what was measured until then is kept. The clock of
/// evaluations and of time to quality runs from the first touch of the data: it counts the opening
/// of the data (session.data_open_s), training and evaluations, but not the passes before. A
/// resumed run goes on from its checkpoint and counts that its own process opened the data again.
[[nodiscard]] TrainingOutcome training_pass(const TrainingPassOptions& options,
                                            const PassWatch& watch);

}  // namespace noisemark::suite
