#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>

#include "suite/config/definition.h"
#include "suite/diffusion/process.h"
#include "suite/models/denoiser.h"
#include "suite/train/precision.h"

/// Draws samples from a network. The source of the noise is a function that is passed in, so that a
/// run can inject a peer's.
namespace noisemark::suite {

/// Identifies noise: that of samples first ... first + n - 1, n being the size of the tensor to
/// fill.
struct NoiseDraw {
  int64_t number = 0;  ///< 0: x_T; k: what is added after the k-th evaluation of the network
  int64_t first = 0;
};

/// Fills `out` [n, C, H, W], row-major on the CPU, float32 or float64, with standard normals. What
/// a sample gets must depend on nothing but the draw's number and the sample's own.
using NoiseSource = std::function<void(const NoiseDraw& draw, const at::Tensor& out)>;

/// The project's own stream (Stream::kSampler), keyed by (seed, number, sample): equal seeds give
/// equal noise under every sampler, batch, device and number of threads, and the first samples of
/// many are those of few.
[[nodiscard]] NoiseSource counter_noise(uint64_t seed);

/// x_T from `initial` [N, C, H, W] (float32 or float64 on the CPU), everything else from `rest`. A
/// sample that `initial` does not have is a programming error.
[[nodiscard]] NoiseSource with_initial_noise(const at::Tensor& initial, NoiseSource rest);

/// x_T from a .npy file of float32 or float64 [N, channels, resolution, resolution]. Throws Error
/// (exit code 2) for any other shape or type, N = 0, or a value that is not finite.
[[nodiscard]] at::Tensor read_initial_noise(const std::string& path, int64_t channels,
                                            int64_t resolution);

/// The progress of a sampler, before its next evaluation of the network.
struct SamplerPosition {
  int64_t samples_done = 0;  ///< finished samples, of `samples`
  int64_t samples = 0;
  int64_t step = 0;  ///< step of the batch in progress, from 0
  int64_t steps = 0;
};

/// The means by which samples are drawn. The samples follow from the task alone, but for rounding.
struct SamplerOptions {
  at::Device device = at::kCPU;
  Precision precision;
  bool channels_last = false;  ///< must be the layout of the model's weights
  int64_t batch = 16;          ///< samples that go through the network together
  /// The sampler calls it before every evaluation of the network; may throw to end the sampling.
  /// Empty says nothing.
  std::function<void(const SamplerPosition&)> before_step;
};

/// The samples that are drawn.
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
