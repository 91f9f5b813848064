#pragma once

#include <map>
#include <string>
#include <vector>

#include "baselines/ops.h"
#include "suite/config/definition.h"
#include "suite/config/lock.h"

/// Computes what LOCK holds, with the real loader, models, schedule and trainer. Needs no files.
namespace noisemark::suite {

/// Writes the rules by which every benchmark's runs are judged and which no definition file names,
/// one a line: what the warm-up rule finds in fixed series of step times, and the margins of
/// metrics with noise (the others have none).
[[nodiscard]] std::string judging_text();

/// SHA-256 of judging_text(): the same for all benchmarks.
[[nodiscard]] std::string judging_sha256();

/// The numbers that a benchmark's network, process, optimizer and evaluation compute in double
/// precision.
struct SemanticTrace {
  std::vector<double> losses;
  std::vector<double> evaluation;
};

/// Computes all of the below. That takes seconds for the small benchmarks and up to a minute for
/// the large ones. Traces are remembered, because the two scales of a benchmark often share them.
class LockComputer {
 public:
  [[nodiscard]] LockEntry compute(const Definition& definition);

 private:
  std::map<std::string, SemanticTrace> traces_;
};

/// Hashes the official files (names and checksums), or the bits of the first 256 generated training
/// images.
[[nodiscard]] std::string data_sha256(const Definition& definition);

/// Hashes the data that a run is evaluated by: the official test file, or the generated test split.
[[nodiscard]] std::string test_data_sha256(const Definition& definition);

/// Hashes names and shapes, in the order of the state dict.
[[nodiscard]] std::string parameters_sha256(const ModelConfig& model);

/// Hashes the 13 buffers' names and float32 bits.
[[nodiscard]] std::string schedule_sha256(const DiffusionConfig& diffusion);

/// Hashes the first 4096 image indices that the loader serves in each of the first two epochs.
[[nodiscard]] std::string order_sha256(const Definition& definition);

/// Losses of 10 training steps in double precision on the CPU: 2 synthetic images a step, all
/// weights drawn from counters (torch's initial weights differ in the last bit between instruction
/// sets, and zero-initialised layers would hide the rest of the network). Everything else is the
/// definition's: model with its dropout, process, objective, optimizer, flips, accumulation.
/// Images of more than 32 pixels are made 32 pixels wide, for the time that takes: the lucid
/// U-Net is the same at any resolution.
/// And, of the same weights before the first step, the validation loss and what kEvaluated names
/// beside it, from evaluate() over 8 test images, one at each of its timesteps: of the mixture
/// where that is the definition's data, else synthetic ones, 16 pixels wide, for the time.
/// `ops` are the network's operators: others are for tests, which break them.
[[nodiscard]] SemanticTrace semantic_trace(const Definition& definition,
                                           const baselines::Ops& ops = baselines::plain_ops());

}  // namespace noisemark::suite
