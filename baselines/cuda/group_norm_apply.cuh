#pragma once

#include <cstdint>

#include "baselines/cuda/norm_device.cuh"
#include "baselines/kernels/group_norm.h"

/// y of a group norm from its statistics: the second sweep of the forward pass, and all of
/// from_statistics().
namespace noisemark::baselines::kernels::device {

/// A channel's: x * scale + offset is normalised, with weight and bias. It rounds as is written
/// here in every kernel, whatever the compiler would contract, so all have the same bits.
struct Scaling {
  float scale;
  float offset;

  __device__ __forceinline__ float operator()(float x) const { return __fmaf_rn(x, scale, offset); }
};

__device__ __forceinline__ Scaling scaling_of(float mean, float rstd, float weight, float bias) {
  const float scale = __fmul_rn(rstd, weight);
  return {scale, __fmaf_rn(-mean, scale, bias)};
}

/// The block takes one group of one sample of [samples, channels, pixels], which is one run of
/// memory.
template <typename T, int kVector>
__device__ __forceinline__ void apply_planes(const GroupNorm<T>& job, int64_t statistic, float mean,
                                             float rstd) {
  const auto pixels = static_cast<uint32_t>(job.shape.pixels);
  const int64_t width = job.shape.channels / job.groups;
  const int64_t count = width * job.shape.pixels;
  const int64_t first = statistic % job.groups * width;
  const T* x = job.x + statistic * count;
  T* y = job.y + statistic * count;
#pragma unroll 2
  for (int64_t i = threadIdx.x * kVector; i < count; i += kThreads * kVector) {
    const int64_t c = first + static_cast<uint32_t>(i) / pixels;
    const Scaling scaling = scaling_of(mean, rstd, job.weight[c], job.bias[c]);
    Pack<T, kVector> pack = load_pack<kVector>(x + i);
    for (int k = 0; k < kVector; ++k) {
      store(pack.values[k], activate(job.act, scaling(load(pack.values[k]))));
    }
    store_pack<kVector>(y + i, pack);
  }
}

}  // namespace noisemark::baselines::kernels::device
