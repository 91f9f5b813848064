#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>

/// Where a sampler's noise comes from: a function that is passed in, so that a run can inject a
/// peer's.
namespace noisemark::suite {

/// Which noise: that of samples first ... first + n - 1, n being the size of the tensor to fill.
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

}  // namespace noisemark::suite
