#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "memopt/example/models.h"

namespace example {

struct TrainingOptions {
  int64_t steps = 40;
  double learning_rate = 3e-3;
  uint64_t seed = 7;
};

/// The outcome of a training, and the bytes that its last step held.
struct Outcome {
  std::vector<at::Tensor> losses;   ///< one for each step
  std::vector<at::Tensor> weights;  ///< weights after the last step, running statistics included
  bool lossless = false;            ///< the mode states it
  int64_t saved_bytes = 0;          ///< bytes held for backward when forward returns
  int64_t peak_saved_bytes = 0;     ///< the most that was held for backward during the step
  int64_t peak_bytes = 0;           ///< the most of everything, weights included
  /// The distance of the last step's gradient from that of mode "none" for the same weights and
  /// batch, as one vector and as a part of its own length.
  double gradient_error = 0;
  /// The operator whose results the mode holds most of as they were saved, and why:
  /// "aten::mkldnn_rnn_layer (operator is not recomputed in this mode)"; or why it has no plan.
  std::string keeps;
};

/// Trains a model under a memory mode. Weights, batches and dropout depend on the options alone.
/// Throws std::invalid_argument for a spelling that names no mode, and memopt::BudgetTooSmall.
[[nodiscard]] Outcome train(const TaskEntry& task, const std::string& mode,
                            const TrainingOptions& options);

/// All losses and weights are.
[[nodiscard]] bool same_bits_as(const Outcome& a, const Outcome& b);

/// Names the promise of `mode` that its training broke, beside the same training under mode "none";
/// empty where it kept all: a lossless mode gives the bits of "none", a budget is not exceeded,
/// no more bytes are held for backward than under "none", neither when forward ends nor at the
/// peak, and the model learns. A mode that moves bytes to the host may hold more on a CPU, whose
/// memory is the host's: at the peak twice as many, since it fetches ahead.
[[nodiscard]] std::string broken_promise(const std::string& mode, const Outcome& outcome,
                                         const Outcome& none);

}  // namespace example
