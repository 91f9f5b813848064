#pragma once

#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "memopt/modes/planned_mode.h"
#include "reports/result/gate.h"
#include "reports/result/result.h"
#include "suite/run/folder/event_log.h"
#include "suite/run/passes/session.h"
#include "suite/run/passes/watch.h"
#include "suite/sampling/patch_record.h"
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
  std::string
      noise_sha256;   ///< the checksum of the noise of one rank's first step; empty without ranks
  Traffic exchanged;  ///< by one rank in its last step
  int64_t expected_bytes = 0;           ///< of that, by formula
  std::vector<Pipeline::Stage> stages;  ///< the stages of a pipeline
  int64_t parameters = 0;
  int64_t resumed_at_step = 0;
  std::optional<int64_t> skipped_steps;  ///< by loss scaling; empty without it
  std::optional<double> loss_scale;      ///< after the last step; empty without it
  memopt::PlannedModeReport mode;        ///< what the memory mode did, since a resumption
  bool interrupted = false;
  std::vector<double> processor_s;  ///< of each step that this process made (PhaseTimer)
  std::exception_ptr error;         ///< what else ended it early; empty without
};

/// Counts the evaluations that a training of `steps` makes after more than `done` of them, where
/// one is due every `every` steps (0: never) and at the end.
[[nodiscard]] int64_t evaluations_after(int64_t done, int64_t steps, int64_t every);

/// The timed pass: trains all steps, evaluates at the start, every `eval.every` steps and at the
/// end, writes checkpoints, the final weights and their average. A NaN, an interrupt or an error
/// ends it early and is told in the outcome; what was measured until then is kept. The clock of
/// evaluations and of time to quality runs from the first touch of the data: it counts the opening
/// of the data (session.data_open_s), training and evaluations, but not the passes before. A
/// resumed run goes on from its checkpoint and counts that its own process opened the data again.
[[nodiscard]] TrainingOutcome training_pass(const TrainingPassOptions& options,
                                            const PassWatch& watch);

struct SamplingPassOptions {
  SampleConfig sample;       ///< in force
  uint64_t seed = 0;         ///< in force
  RunSpec spec;              ///< its definition is as it was loaded, and its mode plays no part
  std::string weights;       ///< what read_sampling_weights() takes
  std::string kind;          ///< "model", "ema", or empty: what the definition evaluates
  at::Tensor initial_noise;  ///< [N, C, H, W] on the CPU, undefined: drawn by `seed`
  std::string noise_file;    ///< where it was read from
  int64_t batch = 16;
  std::filesystem::path out;     ///< made ready by prepare_sampling_folder()
  std::shared_ptr<Group> group;  ///< whose ranks draw the samples together; empty: this process
  PatchOptions patches;          ///< how they do
};

/// Draws samples from trained weights in a model of its own and writes them to `out`. Of several
/// ranks only rank 0 writes. Says on standard error when the weights were trained under another
/// definition. Returns what several ranks did. Throws Error (exit codes 1, 2, 3 and 74), GroupLost
/// and, before anything is written, Interrupted.
std::optional<PatchRecord> sampling_pass(const SamplingPassOptions& options,
                                         const PassWatch& watch);

}  // namespace noisemark::suite
