#pragma once

#include <map>
#include <string>
#include <vector>

#include "baselines/ops.h"
#include "suite/config/definition.h"
#include "suite/config/lock.h"

/// Computes what LOCK holds, with the real loader, models, schedule and trainer. Needs no files.
namespace noisemark::suite {

/// What a benchmark's network, process, optimizer and evaluation compute in double precision.
struct SemanticTrace {
  std::vector<double> losses;
  std::vector<double> evaluation;
};

/// All of the below. Seconds for the small benchmarks, up to a minute for the large ones. Remembers
/// traces, which the two scales of a benchmark often share.
class LockComputer {
 public:
  [[nodiscard]] LockEntry compute(const Definition& definition);

 private:
  std::map<std::string, SemanticTrace> traces_;
};

/// Of the official files (names and checksums), or of the bits of the first 256 generated training
/// pictures.
[[nodiscard]] std::string data_sha256(const Definition& definition);

/// The same of what a run is evaluated by: the official test file, or the generated test split.
[[nodiscard]] std::string test_data_sha256(const Definition& definition);

/// Of names and shapes, in the order of the state dict.
[[nodiscard]] std::string parameters_sha256(const ModelConfig& model);

/// Of the 13 buffers' names and float32 bits.
[[nodiscard]] std::string schedule_sha256(const DiffusionConfig& diffusion);

/// Of the first 4096 picture indices that the loader serves in each of the first two epochs.
[[nodiscard]] std::string order_sha256(const Definition& definition);

/// Losses of 10 training steps in double precision on the CPU: 2 synthetic pictures a step, all
/// weights drawn from counters (torch's initial weights differ in the last bit between instruction
/// sets, and zero-initialised layers would hide the rest of the network). Everything else is the
/// definition's: model with its dropout, process, objective, optimizer, flips, accumulation.
/// Pictures of more than 32 pixels are made 32 pixels wide, for the time that takes: the lucid
/// U-Net is the same at any resolution.
/// And, of the same weights before the first step, the validation loss and what kEvaluated names
/// beside it, from evaluate() over 8 test pictures, one at each of its timesteps: of the mixture
/// where that is the definition's data, else synthetic ones, 16 pixels wide, for the time.
/// `ops` are the network's operators: others are for tests, which break them.
[[nodiscard]] SemanticTrace semantic_trace(const Definition& definition,
                                           const baselines::Ops& ops = baselines::plain_ops());

}  // namespace noisemark::suite
