#include "baselines/cuda/norms.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "baselines/cuda/norm_device.cuh"

namespace noisemark::baselines::kernels {
namespace device {
namespace {

/// A block's pixels: those of one task.
struct Pixels {
  int64_t sample;
  int64_t first;  ///< index within the sample
  int count;

  template <typename T>
  __device__ explicit Pixels(const RmsNorm<T>& job) {
    const int64_t per_sample = job.tasks_per_sample();
    sample = blockIdx.x / per_sample;
    first = blockIdx.x % per_sample * RmsNorm<T>::kPixelsPerTask;
    constexpr int kMost = static_cast<int>(RmsNorm<T>::kPixelsPerTask);
    const int64_t left = job.shape.pixels - first;
    count = left < kMost ? static_cast<int>(left) : kMost;
  }
};

__device__ float inverse_of_norm(float square_sum, float eps) {
  const float norm = sqrtf(square_sum);
  return 1.0f / (norm < eps ? eps : norm);
}

// dx = inverse * (dunit - unit * sum over channels of dunit * unit), dunit = dz * alpha. Where the
// norm was below eps it is a constant, and the second term is absent.
__device__ bool norm_is_constant(float inverse, float eps) {
  return inverse * eps >= 1.0f;
}

/// Rounds as is written here in every kernel, whatever the compiler would contract: what
/// from_statistics() gives has the bits of forward().
__device__ __forceinline__ float normalized(float x, float inverse, float alpha, float beta) {
  return __fmaf_rn(__fmul_rn(x, inverse), alpha, beta);
}

// Planes: [samples, channels, pixels]. Lanes are pixels, rows share out the channels.

/// y of the task's pixels; `inverses` are theirs.
template <typename T>
__device__ __forceinline__ void apply_planes(const RmsNorm<T>& job, const Pixels& task,
                                             const float* inverses) {
  const int64_t pixels = job.shape.pixels;
  const int64_t begin = task.sample * job.shape.channels * pixels + task.first;
  const float* alpha = job.alpha + task.sample * job.row_stride;
  const float* beta = job.beta + task.sample * job.row_stride;
  for_columns(task.count, [&](const Grid& grid, int64_t p, bool active) {
    if (!active) return;
    const float inverse = inverses[p];
#pragma unroll 4
    for (int64_t c = grid.row; c < job.shape.channels; c += grid.rows) {
      const int64_t at = begin + c * pixels + p;
      const float z = normalized(load(job.x[at]), inverse, alpha[c], beta[c]);
      store(job.y[at], activate(job.act, z));
    }
  });
}

template <typename T>
__global__ void __launch_bounds__(kThreads) planes_from_statistics(RmsNorm<T> job) {
  const Pixels task(job);
  apply_planes(job, task, job.inverse_norm + task.sample * job.shape.pixels + task.first);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) forward_planes(RmsNorm<T> job) {
  __shared__ float shared[2 * kThreads];
  __shared__ float inverses[RmsNorm<T>::kPixelsPerTask];
  const Pixels task(job);
  const int64_t pixels = job.shape.pixels;
  const int64_t begin = task.sample * job.shape.channels * pixels + task.first;
  for_columns(task.count, [&](const Grid& grid, int64_t p, bool active) {
    float sum[1] = {};
    float unused[1] = {};
    if (active) {
#pragma unroll 4
      for (int64_t c = grid.row; c < job.shape.channels; c += grid.rows) {
        const float x = load(job.x[begin + c * pixels + p]);
        sum[0] += x * x;
      }
    }
    sum_rows(grid, sum, unused, shared);
    if (!active || grid.row != 0) return;
    inverses[p] = inverse_of_norm(sum[0], static_cast<float>(job.eps));
    job.inverse_norm[task.sample * pixels + task.first + p] = inverses[p];
  });
  __syncthreads();
  apply_planes(job, task, inverses);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) backward_planes(RmsNorm<T> job) {
  __shared__ float shared[2 * kThreads];
  __shared__ float dots[RmsNorm<T>::kPixelsPerTask];
  const Pixels task(job);
  const int64_t channels = job.shape.channels;
  const int64_t pixels = job.shape.pixels;
  const int64_t begin = task.sample * channels * pixels + task.first;
  const float* alpha = job.alpha + task.sample * job.row_stride;
  const float* beta = job.beta + task.sample * job.row_stride;
  const float* inverses = job.inverse_norm + task.sample * pixels + task.first;
  for_columns(task.count, [&](const Grid& grid, int64_t p, bool active) {
    float dot[1] = {};
    float unused[1] = {};
    const float inverse = active ? inverses[p] : 0.0f;
    if (active) {
#pragma unroll 2
      for (int64_t c = grid.row; c < channels; c += grid.rows) {
        const int64_t at = begin + c * pixels + p;
        const float unit = load(job.x[at]) * inverse;
        const float dz = load(job.dy[at]) * slope(job.act, unit * alpha[c] + beta[c]);
        dot[0] += dz * alpha[c] * unit;
      }
    }
    sum_rows(grid, dot, unused, shared);
    if (!active || grid.row != 0) return;
    dots[p] = norm_is_constant(inverse, static_cast<float>(job.eps)) ? 0.0f : dot[0];
  });
  __syncthreads();
  // A warp for a channel: its sums are over the pixels.
  for (int64_t c = warp_of_thread(); c < channels; c += kWarps) {
    float sum = 0;
    float unit_sum = 0;
#pragma unroll 2
    for (int p = lane_of_thread(); p < task.count; p += kLanes) {
      const int64_t at = begin + c * pixels + p;
      const float unit = load(job.x[at]) * inverses[p];
      const float dz = load(job.dy[at]) * slope(job.act, unit * alpha[c] + beta[c]);
      sum += dz;
      unit_sum += dz * unit;
      store(job.dx[at], inverses[p] * (dz * alpha[c] - unit * dots[p]));
    }
    sum = warp_sum(sum);
    unit_sum = warp_sum(unit_sum);
    if (lane_of_thread() != 0) continue;
    job.dbeta[blockIdx.x * channels + c] = sum;
    job.dalpha[blockIdx.x * channels + c] = unit_sum;
  }
}

// Pixels have the form [samples, pixels, channels]. A warp takes a pixel, whose channels are one
// run of memory.

/// y of one pixel, by a warp.
template <typename T, int kVector>
__device__ __forceinline__ void apply_pixel(const RmsNorm<T>& job, int64_t sample, int64_t pixel,
                                            float inverse) {
  const int64_t channels = job.shape.channels;
  const float* alpha = job.alpha + sample * job.row_stride;
  const float* beta = job.beta + sample * job.row_stride;
#pragma unroll 2
  for (int64_t c = lane_of_thread() * kVector; c < channels; c += kLanes * kVector) {
    Pack<T, kVector> pack = load_pack<kVector>(job.x + pixel * channels + c);
    for (int k = 0; k < kVector; ++k) {
      const float z = normalized(load(pack.values[k]), inverse, alpha[c + k], beta[c + k]);
      store(pack.values[k], activate(job.act, z));
    }
    store_pack<kVector>(job.y + pixel * channels + c, pack);
  }
}

template <typename T, int kVector>
__global__ void __launch_bounds__(kThreads) pixels_from_statistics(RmsNorm<T> job) {
  const Pixels task(job);
  const int64_t first = task.sample * job.shape.pixels + task.first;
  for (int p = warp_of_thread(); p < task.count; p += kWarps) {
    apply_pixel<T, kVector>(job, task.sample, first + p, job.inverse_norm[first + p]);
  }
}

template <typename T, int kVector>
__global__ void __launch_bounds__(kThreads) forward_pixels(RmsNorm<T> job) {
  const Pixels task(job);
  const int64_t channels = job.shape.channels;
  const int64_t first = task.sample * job.shape.pixels + task.first;
  for (int p = warp_of_thread(); p < task.count; p += kWarps) {
    const T* x = job.x + (first + p) * channels;
    float sum = 0;
#pragma unroll 2
    for (int64_t c = lane_of_thread() * kVector; c < channels; c += kLanes * kVector) {
      const Pack<T, kVector> pack = load_pack<kVector>(x + c);
      for (int k = 0; k < kVector; ++k) sum += load(pack.values[k]) * load(pack.values[k]);
    }
    const float inverse = inverse_of_norm(warp_sum(sum), static_cast<float>(job.eps));
    if (lane_of_thread() == 0) job.inverse_norm[first + p] = inverse;
    apply_pixel<T, kVector>(job, task.sample, first + p, inverse);
  }
}

/// Returns the gradient of each pixel of the task through the norm: a warp for a pixel.
template <typename T, int kVector>
__device__ void find_pulls(const RmsNorm<T>& job, const Pixels& task, float* pulls) {
  const int64_t channels = job.shape.channels;
  const float* alpha = job.alpha + task.sample * job.row_stride;
  const float* beta = job.beta + task.sample * job.row_stride;
  const int64_t first = task.sample * job.shape.pixels + task.first;
  for (int p = warp_of_thread(); p < task.count; p += kWarps) {
    const T* x = job.x + (first + p) * channels;
    const T* dy = job.dy + (first + p) * channels;
    const float inverse = job.inverse_norm[first + p];
    float dot = 0;
    for (int64_t c = lane_of_thread() * kVector; c < channels; c += kLanes * kVector) {
      const Pack<T, kVector> xs = load_pack<kVector>(x + c);
      const Pack<T, kVector> dys = load_pack<kVector>(dy + c);
      for (int k = 0; k < kVector; ++k) {
        const float unit = load(xs.values[k]) * inverse;
        const float dz = load(dys.values[k]) * slope(job.act, unit * alpha[c + k] + beta[c + k]);
        dot += dz * alpha[c + k] * unit;
      }
    }
    dot = warp_sum(dot);
    if (lane_of_thread() != 0) continue;
    pulls[p] = norm_is_constant(inverse, static_cast<float>(job.eps)) ? 0.0f : dot;
  }
}

template <typename T, int kVector>
__global__ void __launch_bounds__(kThreads) backward_pixels(RmsNorm<T> job) {
  __shared__ float shared[2 * kThreads * kVector];
  __shared__ float pulls[RmsNorm<T>::kPixelsPerTask];
  const Pixels task(job);
  const int64_t channels = job.shape.channels;
  const float* alphas = job.alpha + task.sample * job.row_stride;
  const float* betas = job.beta + task.sample * job.row_stride;
  const int64_t first = task.sample * job.shape.pixels + task.first;
  find_pulls<T, kVector>(job, task, pulls);
  __syncthreads();
  for_columns(channels / kVector, [&](const Grid& grid, int64_t column, bool active) {
    float sum[kVector] = {};
    float unit_sum[kVector] = {};
    if (active) {
      float alpha[kVector];
      float beta[kVector];
      for (int k = 0; k < kVector; ++k) {
        alpha[k] = alphas[column * kVector + k];
        beta[k] = betas[column * kVector + k];
      }
      for (int p = grid.row; p < task.count; p += grid.rows) {
        const float inverse = job.inverse_norm[first + p];
        const int64_t at = (first + p) * channels + column * kVector;
        const Pack<T, kVector> xs = load_pack<kVector>(job.x + at);
        Pack<T, kVector> pack = load_pack<kVector>(job.dy + at);
        for (int k = 0; k < kVector; ++k) {
          const float unit = load(xs.values[k]) * inverse;
          const float dz = load(pack.values[k]) * slope(job.act, unit * alpha[k] + beta[k]);
          sum[k] += dz;
          unit_sum[k] += dz * unit;
          store(pack.values[k], inverse * (dz * alpha[k] - unit * pulls[p]));
        }
        store_pack<kVector>(job.dx + at, pack);
      }
    }
    sum_rows(grid, sum, unit_sum, shared);
    if (!active || grid.row != 0) return;
    const int64_t out = blockIdx.x * channels + column * kVector;
    for (int k = 0; k < kVector; ++k) {
      job.dbeta[out + k] = sum[k];
      job.dalpha[out + k] = unit_sum[k];
    }
  });
}

/// Returns whether a pixel's channels begin and end with a pack.
template <typename T>
bool fills_packs(const RmsNorm<T>& job) {
  return job.shape.channels % kWide<T> == 0 && starts_a_pack(job.x) && starts_a_pack(job.y) &&
         starts_a_pack(job.dy) && starts_a_pack(job.dx);
}

template <typename T>
unsigned blocks_of(const RmsNorm<T>& job) {
  return static_cast<unsigned>(job.shape.samples * job.tasks_per_sample());
}

/// Starts the kernel for planes, or for pixels that fill packs, or for other pixels.
template <typename T, typename Kernel>
void launch(const RmsNorm<T>& job, Kernel planes, Kernel packs, Kernel pixels) {
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  const Kernel kernel = !job.shape.channels_last ? planes : fills_packs(job) ? packs : pixels;
  kernel<<<blocks_of(job), kThreads, 0, stream>>>(job);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <typename T>
void forward(const RmsNorm<T>& job) {
  launch(job, forward_planes<T>, forward_pixels<T, kWide<T>>, forward_pixels<T, 1>);
}

template <typename T>
void from_statistics(const RmsNorm<T>& job) {
  launch(job, planes_from_statistics<T>, pixels_from_statistics<T, kWide<T>>,
         pixels_from_statistics<T, 1>);
}

template <typename T>
void backward(const RmsNorm<T>& job) {
  launch(job, backward_planes<T>, backward_pixels<T, kWide<T>>, backward_pixels<T, 1>);
}

}  // namespace
}  // namespace device

namespace cuda {

void forward(const RmsNorm<float>& job) {
  device::forward(job);
}
void forward(const RmsNorm<BFloat16>& job) {
  device::forward(job);
}
void from_statistics(const RmsNorm<float>& job) {
  device::from_statistics(job);
}
void from_statistics(const RmsNorm<BFloat16>& job) {
  device::from_statistics(job);
}
void backward(const RmsNorm<float>& job) {
  device::backward(job);
}
void backward(const RmsNorm<BFloat16>& job) {
  device::backward(job);
}

}  // namespace cuda
}  // namespace noisemark::baselines::kernels
