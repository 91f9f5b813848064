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
#include "suite/sampling/patches.h"
#include "suite/train/checkpoint.h"

namespace noisemark::suite {

struct TrainingPassOptions {
  SessionOptions session;
  std::string checkpoint_path;   ///< is empty for none
  int64_t checkpoint_every = 0;  ///< steps; 0: never
  bool resume = false;           ///< start from checkpoint_path where it exists
  CheckpointKey checkpoint_key;
  std::string weights_path;    ///< file for the trained weights; empty: none
  std::string average_path;    ///< file for their average, if there is one; empty: none
  EventLog* events = nullptr;  ///< is told of the run and of evaluations; others own it
};

struct TrainingOutcome {
  TrainingProgress progress;
  reports::Quality quality;
  reports::Determinism determinism;
  reports::Finiteness finiteness;
  reports::TrainingMemory memory;
  std::string
      noise_sha256;   ///< the checksum of the noise of one rank's first step; empty without ranks
  Traffic exchanged;  ///< sums of one rank in its last step
  int64_t expected_bytes = 0;           ///< bytes of that, by formula
  std::vector<Pipeline::Stage> stages;  ///< the stages of a pipeline
  int64_t parameters = 0;
  int64_t resumed_at_step = 0;
  std::optional<int64_t> skipped_steps;  ///< number that loss scaling skipped; empty without it
  std::optional<double> loss_scale;      ///< scale after the last step; empty without it
  memopt::PlannedModeReport mode;        ///< report of the memory mode, since a resumption
  bool interrupted = false;
  /// The interrupt cut off an evaluation, which is none of the evaluations; a resumed run makes it.
  bool in_evaluation = false;
  std::vector<double> processor_s;  ///< CPU time of each step that this process made (PhaseTimer)
  std::exception_ptr error;         ///< any other cause of an early end; null: none
};

/// Counts the evaluations that a training of `steps` makes after more than `done` of them, where
/// one is due every `every` steps (0: never) and at the end.
[[nodiscard]] int64_t evaluations_after(int64_t done, int64_t steps, int64_t every);

/// Says why no loss counts as reaching quality; empty: eval.target_loss does. A definition's target
/// is of its own images: whoever names other data has none, unless they set it too.
[[nodiscard]] std::string why_no_target(const Definition& definition);

/// The timed pass: trains all steps, evaluates at the start, every `eval.every` steps and at the
/// end, writes checkpoints, the final weights and their average. A NaN, an interrupt or an error
/// ends it early and is told in the outcome; what was measured until then is kept. The clock of
/// evaluations and of time to quality runs from the first touch of the data: it counts the opening
/// of the data (session.data_open_s), training and evaluations, but not the passes before. A
/// resumed run goes on from its checkpoint and counts that its own process opened the data again.
[[nodiscard]] TrainingOutcome training_pass(const TrainingPassOptions& options,
                                            const PassWatch& watch);

struct SamplingPassOptions {
  SampleConfig sample;       ///< settings in force
  uint64_t seed = 0;         ///< seed in force
  RunSpec spec;              ///< its definition is as it was loaded, and its mode plays no part
  std::string weights;       ///< source for read_sampling_weights()
  std::string kind;          ///< "model", "ema", or empty: what the definition evaluates
  at::Tensor initial_noise;  ///< [N, C, H, W] on the CPU, undefined: drawn by `seed`
  std::string noise_file;    ///< file that `initial_noise` was read from; empty: drawn
  int64_t batch = 16;
  std::filesystem::path out;     ///< folder that prepare_sampling_folder() made ready
  std::shared_ptr<Group> group;  ///< ranks that draw the samples together; empty: this process
  PatchOptions patches;          ///< options for several ranks
};

/// Draws samples from trained weights in a model of its own and writes them to `out`. Of several
/// ranks only rank 0 writes. Says on standard error when the weights were trained under another
/// definition. Returns what several ranks did. Throws Error (exit codes 1, 2, 3 and 74), GroupLost
/// and, before anything is written, Interrupted.
std::optional<PatchRecord> sampling_pass(const SamplingPassOptions& options,
                                         const PassWatch& watch);

}  // namespace noisemark::suite
