#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

#include "baselines/cuda/group_norm_apply.cuh"
#include "baselines/cuda/norms.h"

namespace noisemark::baselines::kernels {
namespace device {
namespace {

/// Few enough that small batches fill a GPU, and enough that a thread's scaling serves several.
constexpr int64_t kPixelsPerBlock = 64;

template <typename T, int kVector>
__global__ void __launch_bounds__(kThreads) planes_from_statistics(GroupNorm<T> job) {
  const int64_t statistic = blockIdx.x;
  apply_planes<T, kVector>(job, statistic, job.mean[statistic], job.rstd[statistic]);
}

/// [samples, pixels, channels]: a block has neighbouring pixels of one sample with all their
/// channels, which are one run of memory.
template <typename T, int kVector>
__global__ void __launch_bounds__(kThreads)
    pixels_from_statistics(GroupNorm<T> job, int64_t blocks_per_sample) {
  const int64_t sample = blockIdx.x / blocks_per_sample;
  const int64_t first = blockIdx.x % blocks_per_sample * kPixelsPerBlock;
  const int64_t end = min(first + kPixelsPerBlock, job.shape.pixels);
  const int64_t channels = job.shape.channels;
  const auto width = static_cast<uint32_t>(channels / job.groups);
  for_columns(channels / kVector, [&](const Grid& grid, int64_t column, bool active) {
    if (!active) return;
    Scaling scalings[kVector];
    for (int k = 0; k < kVector; ++k) {
      const auto c = static_cast<uint32_t>(column * kVector + k);
      const int64_t statistic = sample * job.groups + c / width;
      scalings[k] =
          scaling_of(job.mean[statistic], job.rstd[statistic], job.weight[c], job.bias[c]);
    }
    const int64_t at = sample * job.shape.pixels * channels + column * kVector;
#pragma unroll 4
    for (int64_t p = first + grid.row; p < end; p += grid.rows) {
      Pack<T, kVector> pack = load_pack<kVector>(job.x + at + p * channels);
      for (int k = 0; k < kVector; ++k) {
        store(pack.values[k], activate(job.act, scalings[k](load(pack.values[k]))));
      }
      store_pack<kVector>(job.y + at + p * channels, pack);
    }
  });
}

template <typename T, int kVector>
void launch(const GroupNorm<T>& job) {
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  if (job.shape.channels_last) {
    const int64_t per_sample = (job.shape.pixels + kPixelsPerBlock - 1) / kPixelsPerBlock;
    const auto blocks = static_cast<unsigned>(job.shape.samples * per_sample);
    pixels_from_statistics<T, kVector><<<blocks, kThreads, 0, stream>>>(job, per_sample);
  } else {
    const auto blocks = static_cast<unsigned>(job.shape.samples * job.groups);
    planes_from_statistics<T, kVector><<<blocks, kThreads, 0, stream>>>(job);
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <typename T>
void from_statistics(const GroupNorm<T>& job) {
  const int64_t run = job.shape.channels_last ? job.shape.channels : job.shape.pixels;
  const bool wide = run % kWide<T> == 0 && starts_a_pack(job.x) && starts_a_pack(job.y);
  wide ? launch<T, kWide<T>>(job) : launch<T, 1>(job);
}

}  // namespace
}  // namespace device

namespace cuda {

void from_statistics(const GroupNorm<float>& job) {
  device::from_statistics(job);
}
void from_statistics(const GroupNorm<BFloat16>& job) {
  device::from_statistics(job);
}

}  // namespace cuda
}  // namespace noisemark::baselines::kernels
