#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "memopt/example/encoder.h"

namespace example {

struct TrainingOptions {
  EncoderOptions encoder;
  int64_t batch = 16;
  int64_t steps = 60;
  double learning_rate = 3e-3;
  uint64_t seed = 7;
};

/// What training left behind, and what its last step held.
struct Outcome {
  std::vector<at::Tensor> losses;   ///< one for each step
  std::vector<at::Tensor> weights;  ///< after the last step
  bool lossless = false;            ///< what the mode says of itself
  int64_t saved_bytes = 0;          ///< held for backward when forward returns
  int64_t peak_saved_bytes = 0;     ///< the most that was held for backward during the step
  int64_t peak_bytes = 0;           ///< the most of everything, weights included
};

/// Trains an encoder to say generated sequences backwards, under a memory mode. Weights, sequences
/// and dropout depend on the options alone. Throws std::invalid_argument for a spelling that names
/// no mode, and memopt::BudgetTooSmall.
[[nodiscard]] Outcome train(const std::string& mode, const TrainingOptions& options);

}  // namespace example
