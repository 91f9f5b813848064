#pragma once

#include <string>
#include <vector>

#include "reports/result/result.h"
#include "suite/io/safetensors.h"
#include "suite/train/trainer.h"

namespace noisemark::suite {

/// The measurements of a run so far; a checkpoint holds them, so that a resumed run's result is
/// whole.
struct TrainingProgress {
  reports::Samples samples;
  std::vector<reports::Evaluation> evaluations;
  double elapsed_s = 0;             ///< time from the first touch of data on, over all sessions of
                                    ///< the run
  std::string init_weights_sha256;  ///< hash of the weights that the first session began with
  Division division;  ///< division of a pipeline; a resumed one keeps it, for its last bits
};

/// The run that a checkpoint belongs to. Resuming under another one is refused.
struct CheckpointKey {
  std::string definition_sha256;
  std::string variant;  ///< label, device, threads, seed and determinism
  std::string data;     ///< checksum over the data's files, empty for generated data
  std::string init_weights_sha256 = {};  ///< hash of the weights to begin with; empty: any
};

/// Throws Error, exit code 3, naming the first field of `found` (which is in `where`) that is not
/// this run's.
void require_same_run(const std::string& where, const CheckpointKey& found,
                      const CheckpointKey& own);

/// Writes weights, optimizer, average, scaler, step and progress as one safetensors file: first
/// beside `path`, then renamed, with a SHA-256 over all tensors inside, so that a kill at any
/// moment leaves the previous checkpoint or the whole new one. In a group rank 0 calls it, and the
/// others call Trainer::whole_state(); but for the division of a pipeline, the file is the same for
/// any number of ranks. Throws Error, exit code 74, when it cannot be written.
void write_checkpoint(const std::string& path, Trainer& trainer, const CheckpointKey& key,
                      const TrainingProgress& progress);

/// Returns whether a file says of itself that it is a checkpoint.
[[nodiscard]] bool is_checkpoint(const SafetensorsFile& file);

/// Returns the weights of a checkpoint, whichever run's, under the names of the model ("model"), or
/// with their average in the place of each parameter ("ema"). `path` is for messages. Throws Error,
/// exit code 2, when the checkpoint is not whole or holds no average.
[[nodiscard]] NamedTensors checkpoint_weights(const SafetensorsFile& file, const std::string& path,
                                              const std::string& kind);

/// Throws Error as read_checkpoint() does: a run that cannot be continued is found before it
/// begins.
void require_checkpoint(const std::string& path, const CheckpointKey& key);

/// Returns how the stages of a checkpoint's run divided the network; nothing is divided without
/// stages. The caller has found the checkpoint whole.
[[nodiscard]] Division division_in_checkpoint(const std::string& path);

/// Restores `trainer` (same definition and variant) and returns the progress. In a group rank 0
/// calls it, and the others call Trainer::restore() with their whole_state(). Throws Error, exit
/// code 2, when the file is not a whole checkpoint, or exit code 3 naming the field when it belongs
/// to another run.
[[nodiscard]] TrainingProgress read_checkpoint(const std::string& path, Trainer& trainer,
                                               const CheckpointKey& key);

}  // namespace noisemark::suite
