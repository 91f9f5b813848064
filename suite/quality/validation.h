#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "reports/result/result.h"
#include "suite/config/definition.h"
#include "suite/data/dataset.h"
#include "suite/diffusion/process.h"
#include "suite/models/denoiser.h"
#include "suite/train/precision.h"

namespace noisemark::suite {

inline constexpr int64_t kEvaluationTimesteps = 8;

/// t_j = floor((j + 0.5) T / 8), j = 0 ... 7: equidistant, as in MLPerf Training's diffusion
/// benchmark.
[[nodiscard]] std::vector<int64_t> evaluation_timesteps(int64_t timesteps);

/// Throws Error, exit code 2, when the data's test split has fewer than `eval.samples` images.
void require_evaluation_samples(const Definition& definition, const Dataset& dataset);

struct EvaluationOptions {
  at::Device device = at::kCPU;
  Precision precision;
  bool channels_last = false;
  int64_t batch = 0;  ///< images per forward pass; 0: as in training (batch / accumulation)
  /// It is called before each forward pass with the samples that are done, and its exception ends
  /// the evaluation.
  std::function<void(int64_t done)> before_batch = {};
};

/// The validation loss: the first `eval.samples` images of the test split, sample i at timestep
/// t_(i mod 8), with fixed noise from Stream::kEvalNoise keyed by i, so that the same seed gives
/// the same (x0, t, noise) under every mode and batch. Losses are per sample, the mean over pixels,
/// and are added up in float64 in the order of the samples.
///
/// If the dataset knows its distribution, the Bayes-optimal losses of the very same draws are in
/// the result too, and excess_frac = (loss - optimal) / optimal.
///
/// The model runs in evaluation mode (no dropout) and without gradients; its mode is restored, also
/// after an exception. `step`, `samples_seen` and `elapsed_s` of the result are the caller's.
/// Throws Error, exit code 2, when the test split is too small.
[[nodiscard]] reports::Evaluation evaluate(Denoiser& model, const DiffusionProcess& process,
                                           const Dataset& dataset, const Definition& definition,
                                           const EvaluationOptions& options);

}  // namespace noisemark::suite
