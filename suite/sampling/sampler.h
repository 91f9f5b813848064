#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "suite/config/definition.h"
#include "suite/diffusion/process.h"
#include "suite/models/denoiser.h"
#include "suite/sampling/noise.h"
#include "suite/train/precision.h"

namespace noisemark::suite {

/// How far a sampler has come, before its next evaluation of the network.
struct SamplerPosition {
  int64_t samples_done = 0;  ///< of `samples`, whole ones
  int64_t samples = 0;
  int64_t step = 0;  ///< of the batch in progress, from 0
  int64_t steps = 0;
};

/// How samples are drawn. What they are follows from the task alone, but for rounding.
struct SamplerOptions {
  at::Device device = at::kCPU;
  Precision precision;
  bool channels_last = false;  ///< as the model's weights are
  int64_t batch = 16;          ///< samples that go through the network together
  /// Called before every evaluation of the network; may throw to end the sampling. Empty: nothing.
  std::function<void(const SamplerPosition&)> before_step;
};

/// What is drawn.
struct SamplerTask {
  SampleConfig sample;  ///< the sampler and its settings, and how many samples
  int64_t channels = 3;
  int64_t resolution = 32;
  NoiseSource noise;
};

/// Draws `task.sample.count` samples: [count, C, H, W], row-major on the CPU, in the precision's
/// type of weights, values as of the data (about [-1, 1]). `model` (on the device, in the type and
/// memory format of `options`) and `process` (likewise) predict what `process` says. The model runs
/// in evaluation mode and without gradients; its mode is restored, also after an exception.
///
/// Sample i depends on its own noise only. Where the network's arithmetic does not depend on the
/// size of a batch, neither do the samples, bit for bit; libraries that choose other kernels for
/// other batches move their last bits.
///
/// Throws Error: exit code 2 as sampler_steps() does, exit code 1 where a sample is not finite.
[[nodiscard]] at::Tensor draw_samples(Denoiser& model, const DiffusionProcess& process,
                                      const SamplerTask& task, const SamplerOptions& options);

}  // namespace noisemark::suite
