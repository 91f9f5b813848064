#include "baselines/cuda/norms.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

#include "baselines/cuda/norm_device.cuh"

namespace noisemark::baselines::kernels {
namespace device {
namespace {

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

__device__ float rstd_of(double variance, double eps) {
  return static_cast<float>(1.0 / sqrt((variance > 0 ? variance : 0) + eps));
}

// Sums are taken of x minus the first value (Chan, Golub and LeVeque, 1983): what cancels in the
// variance is then of the order of the deviation, not of the mean.

// Planes have the form [samples, channels, pixels]. A block takes one group of one sample, which is
// one run of memory; it is read a second time from the cache.

template <typename T, int kVector>
__device__ float2 sums_of_run(const T* x, int64_t count, float origin) {
  float2 sums{0, 0};
#pragma unroll 4
  for (int64_t i = threadIdx.x * kVector; i < count; i += kThreads * kVector) {
    const Pack<T, kVector> pack = load_pack<kVector>(x + i);
    for (int k = 0; k < kVector; ++k) {
      const float d = load(pack.values[k]) - origin;
      sums.x += d;
      sums.y += d * d;
    }
  }
  return sums;
}

/// Mean and rstd of a run, for all threads.
template <typename T, int kVector>
__device__ float2 moments_of_run(const T* x, int64_t count, double eps, float* shared) {
  const float origin = load(x[0]);
  const float2 sums = block_sums(sums_of_run<T, kVector>(x, count, origin), shared);
  const double centre = double{sums.x} / static_cast<double>(count);
  const double variance = double{sums.y} / static_cast<double>(count) - centre * centre;
  return {static_cast<float>(double{origin} + centre), rstd_of(variance, eps)};
}

template <typename T, int kVector>
__global__ void __launch_bounds__(kThreads) forward_planes(GroupNorm<T> job) {
  __shared__ float shared[2 * kWarps];
  const int64_t statistic = blockIdx.x;
  const int64_t count = job.shape.channels / job.groups * job.shape.pixels;
  const float2 moments =
      moments_of_run<T, kVector>(job.x + statistic * count, count, job.eps, shared);
  if (threadIdx.x == 0) {
    job.mean[statistic] = moments.x;
    job.rstd[statistic] = moments.y;
  }
  apply_planes<T, kVector>(job, statistic, moments.x, moments.y);
}

/// Holds all that the backward pass of one channel needs besides x and dy.
struct Channel {
  float mean, rstd, weight, bias;
  Act act;

  __device__ float unit(float x) const { return (x - mean) * rstd; }
  __device__ float dz(float dy, float unit) const { return dy * slope(act, unit * weight + bias); }
};

/// Returns the sums of dz and dz * unit over this warp's share of a channel, for all lanes.
template <typename T, int kVector>
__device__ float2 sum_plane(const T* x, const T* dy, int64_t pixels, const Channel& channel,
                            int part, int parts) {
  float2 sums{0, 0};
  const int64_t step = static_cast<int64_t>(parts) * kLanes * kVector;
#pragma unroll 2
  for (int64_t p = (part * kLanes + lane_of_thread()) * kVector; p < pixels; p += step) {
    const Pack<T, kVector> xs = load_pack<kVector>(x + p);
    const Pack<T, kVector> dys = load_pack<kVector>(dy + p);
    for (int k = 0; k < kVector; ++k) {
      const float unit = channel.unit(load(xs.values[k]));
      const float dz = channel.dz(load(dys.values[k]), unit);
      sums.x += dz;
      sums.y += dz * unit;
    }
  }
  return {warp_sum(sums.x), warp_sum(sums.y)};
}

/// Means over one group of the gradient of the normalised values, and of it times them: by one
/// warp, for all its lanes.
__device__ float2 group_means(const float* weight, const float* dbias, const float* dweight,
                              int64_t width, int64_t pixels) {
  double dunit = 0;
  double dunit_unit = 0;
  for (int64_t c = lane_of_thread(); c < width; c += kLanes) {
    dunit += double{weight[c]} * double{dbias[c]};
    dunit_unit += double{weight[c]} * double{dweight[c]};
  }
  const double count = static_cast<double>(width * pixels);
  return {static_cast<float>(warp_sum(dunit) / count),
          static_cast<float>(warp_sum(dunit_unit) / count)};
}

/// Fills dbias and dweight of a group: each channel by as many warps as there are for it.
template <typename T, int kVector>
__device__ void sum_planes(const GroupNorm<T>& job, int64_t statistic, float* shared) {
  const int64_t pixels = job.shape.pixels;
  const int64_t width = job.shape.channels / job.groups;
  const int64_t first = statistic % job.groups * width;
  const int parts = width < kWarps ? kWarps / static_cast<int>(width) : 1;
  const int slots = kWarps / parts;
  const int slot = warp_of_thread() / parts;
  for (int64_t round = 0; round < width; round += slots) {
    const int64_t c = round + slot;
    float2 sums{0, 0};
    if (slot < slots && c < width) {
      const Channel channel{job.mean[statistic], job.rstd[statistic], job.weight[first + c],
                            job.bias[first + c], job.act};
      const int64_t begin = (statistic * width + c) * pixels;
      sums = sum_plane<T, kVector>(job.x + begin, job.dy + begin, pixels, channel,
                                   warp_of_thread() % parts, parts);
    }
    if (lane_of_thread() == 0) {
      shared[warp_of_thread()] = sums.x;
      shared[kWarps + warp_of_thread()] = sums.y;
    }
    __syncthreads();
    const int own = static_cast<int>(threadIdx.x);
    if (own < slots && round + own < width) {
      float2 total{0, 0};
      for (int part = 0; part < parts; ++part) {
        total.x += shared[own * parts + part];
        total.y += shared[kWarps + own * parts + part];
      }
      job.dbias[statistic * width + round + own] = total.x;
      job.dweight[statistic * width + round + own] = total.y;
    }
    __syncthreads();
  }
}

template <typename T, int kVector>
__global__ void __launch_bounds__(kThreads) backward_planes(GroupNorm<T> job) {
  __shared__ float shared[2 * kWarps];
  const int64_t statistic = blockIdx.x;
  const auto pixels = static_cast<int>(job.shape.pixels);
  const int64_t width = job.shape.channels / job.groups;
  const int64_t first = statistic % job.groups * width;
  const int64_t count = width * pixels;
  const int64_t begin = statistic * count;
  sum_planes<T, kVector>(job, statistic, shared);
  const float2 means = group_means(job.weight + first, job.dbias + statistic * width,
                                   job.dweight + statistic * width, width, pixels);
  const float mean = job.mean[statistic];
  const float rstd = job.rstd[statistic];
  const T* x = job.x + begin;
  const T* dy = job.dy + begin;
  T* dx = job.dx + begin;
#pragma unroll 2
  for (int64_t i = threadIdx.x * kVector; i < count; i += kThreads * kVector) {
    const int64_t c = first + static_cast<uint32_t>(i) / static_cast<uint32_t>(pixels);
    const Channel channel{mean, rstd, job.weight[c], job.bias[c], job.act};
    const Pack<T, kVector> xs = load_pack<kVector>(x + i);
    Pack<T, kVector> pack = load_pack<kVector>(dy + i);
    for (int k = 0; k < kVector; ++k) {
      const float unit = channel.unit(load(xs.values[k]));
      const float dunit = channel.dz(load(pack.values[k]), unit) * channel.weight;
      store(pack.values[k], rstd * (dunit - means.x - unit * means.y));
    }
    store_pack<kVector>(dx + i, pack);
  }
}

// Pixels: [samples, pixels, channels]. A block for the neighbouring groups of one sample that share
// a task. Sums run over pixels for all channels of the task at once; what belongs to a group is
// spread over its channels in scratch.

struct Task {
  int64_t sample;
  int64_t first_group;
  int64_t groups;
  int64_t width;
  int64_t first;  ///< channel
  int64_t count;  ///< number of channels
  int64_t begin;  ///< offset of its first value

  template <typename T>
  __device__ explicit Task(const GroupNorm<T>& job) {
    const int64_t per_sample = (job.groups + job.groups_per_task - 1) / job.groups_per_task;
    sample = blockIdx.x / per_sample;
    first_group = blockIdx.x % per_sample * job.groups_per_task;
    const int64_t left = job.groups - first_group;
    groups = left < job.groups_per_task ? left : job.groups_per_task;
    width = job.shape.channels / job.groups;
    first = first_group * width;
    count = groups * width;
    begin = sample * job.shape.pixels * job.shape.channels + first;
  }
};

template <typename T, int kVector>
__device__ void sum_channels(const GroupNorm<T>& job, const Task& task, float* sum,
                             float* square_sum, float* shared) {
  const int64_t channels = job.shape.channels;
  for_columns(task.count / kVector, [&](const Grid& grid, int64_t column, bool active) {
    float first[kVector] = {};
    float second[kVector] = {};
    if (active) {
      const T* x = job.x + task.begin + column * kVector;
      const Pack<T, kVector> origin = load_pack<kVector>(x);
#pragma unroll 4
      for (int64_t p = grid.row; p < job.shape.pixels; p += grid.rows) {
        const Pack<T, kVector> pack = load_pack<kVector>(x + p * channels);
        for (int k = 0; k < kVector; ++k) {
          const float d = load(pack.values[k]) - load(origin.values[k]);
          first[k] += d;
          second[k] += d * d;
        }
      }
    }
    sum_rows(grid, first, second, shared);
    if (!active || grid.row != 0) return;
    for (int k = 0; k < kVector; ++k) {
      sum[column * kVector + k] = first[k];
      square_sum[column * kVector + k] = second[k];
    }
  });
  __syncthreads();
}

/// Moments of one group of `width` channels from their sums.
template <typename T>
__device__ float2 combine_channels(const T* origin, const float* sum, const float* square_sum,
                                   int64_t width, int64_t pixels, double eps) {
  const double count = static_cast<double>(pixels);
  double centre = 0;
  for (int64_t c = 0; c < width; ++c) {
    centre += double{load(origin[c])} + double{sum[c]} / count;
  }
  centre /= static_cast<double>(width);
  double variance = 0;
  for (int64_t c = 0; c < width; ++c) {
    const double shift = double{sum[c]} / count;
    const double deviation = double{load(origin[c])} + shift - centre;
    variance += double{square_sum[c]} / count - shift * shift + deviation * deviation;
  }
  return {static_cast<float>(centre), rstd_of(variance / static_cast<double>(width), eps)};
}

template <typename T, int kVector>
__global__ void __launch_bounds__(kThreads) forward_pixels(GroupNorm<T> job) {
  __shared__ float shared[2 * kThreads * kVector];
  const Task task(job);
  const int64_t channels = job.shape.channels;
  const int64_t pixels = job.shape.pixels;
  float* scale = job.scratch + task.sample * 4 * channels + task.first;
  float* offset = scale + channels;
  float* sum = offset + channels;
  float* square_sum = sum + channels;
  sum_channels<T, kVector>(job, task, sum, square_sum, shared);
  for (int64_t group = threadIdx.x; group < task.groups; group += kThreads) {
    const int64_t at = group * task.width;
    const float2 moments = combine_channels(job.x + task.begin + at, sum + at, square_sum + at,
                                            task.width, pixels, job.eps);
    const int64_t statistic = task.sample * job.groups + task.first_group + group;
    job.mean[statistic] = moments.x;
    job.rstd[statistic] = moments.y;
    for (int64_t c = at; c < at + task.width; ++c) {
      const Scaling scaling =
          scaling_of(moments.x, moments.y, job.weight[task.first + c], job.bias[task.first + c]);
      scale[c] = scaling.scale;
      offset[c] = scaling.offset;
    }
  }
  __syncthreads();
  for_columns(task.count / kVector, [&](const Grid& grid, int64_t column, bool active) {
    if (!active) return;
    Scaling scalings[kVector];
    for (int k = 0; k < kVector; ++k) {
      scalings[k] = {scale[column * kVector + k], offset[column * kVector + k]};
    }
    const int64_t at = task.begin + column * kVector;
#pragma unroll 4
    for (int64_t p = grid.row; p < pixels; p += grid.rows) {
      Pack<T, kVector> pack = load_pack<kVector>(job.x + at + p * channels);
      for (int k = 0; k < kVector; ++k) {
        store(pack.values[k], activate(job.act, scalings[k](load(pack.values[k]))));
      }
      store_pack<kVector>(job.y + at + p * channels, pack);
    }
  });
}

/// Holds neighbouring channels, in registers.
template <int kVector>
struct Channels {
  float rstd[kVector], shift[kVector], weight[kVector], bias[kVector];  ///< unit = x * rstd + shift

  template <typename T>
  __device__ Channels(const GroupNorm<T>& job, const Task& task, int64_t column) {
    for (int k = 0; k < kVector; ++k) {
      const int64_t c = task.first + column * kVector + k;
      const int64_t statistic = task.sample * job.groups + c / task.width;
      rstd[k] = job.rstd[statistic];
      shift[k] = -job.mean[statistic] * rstd[k];
      weight[k] = job.weight[c];
      bias[k] = job.bias[c];
    }
  }
  __device__ float unit(int k, float x) const { return x * rstd[k] + shift[k]; }
  __device__ float dz(Act act, int k, float dy, float unit) const {
    return dy * slope(act, unit * weight[k] + bias[k]);
  }
};

template <typename T, int kVector>
__device__ void sum_pixels(const GroupNorm<T>& job, const Task& task, float* shared) {
  const int64_t channels = job.shape.channels;
  for_columns(task.count / kVector, [&](const Grid& grid, int64_t column, bool active) {
    float first[kVector] = {};
    float second[kVector] = {};
    if (active) {
      const Channels<kVector> here(job, task, column);
      const int64_t at = task.begin + column * kVector;
#pragma unroll 2
      for (int64_t p = grid.row; p < job.shape.pixels; p += grid.rows) {
        const Pack<T, kVector> xs = load_pack<kVector>(job.x + at + p * channels);
        const Pack<T, kVector> dys = load_pack<kVector>(job.dy + at + p * channels);
        for (int k = 0; k < kVector; ++k) {
          const float unit = here.unit(k, load(xs.values[k]));
          const float dz = here.dz(job.act, k, load(dys.values[k]), unit);
          first[k] += dz;
          second[k] += dz * unit;
        }
      }
    }
    sum_rows(grid, first, second, shared);
    if (!active || grid.row != 0) return;
    const int64_t out = task.sample * channels + task.first + column * kVector;
    for (int k = 0; k < kVector; ++k) {
      job.dbias[out + k] = first[k];
      job.dweight[out + k] = second[k];
    }
  });
  __syncthreads();
}

template <typename T, int kVector>
__global__ void __launch_bounds__(kThreads) backward_pixels(GroupNorm<T> job) {
  __shared__ float shared[2 * kThreads * kVector];
  const Task task(job);
  const int64_t channels = job.shape.channels;
  const int64_t pixels = job.shape.pixels;
  float* dunit_mean = job.scratch + task.sample * 4 * channels + task.first;
  float* dunit_unit_mean = dunit_mean + channels;
  sum_pixels<T, kVector>(job, task, shared);
  const int64_t sums = task.sample * channels + task.first;
  for (int64_t group = warp_of_thread(); group < task.groups; group += kWarps) {
    const int64_t at = group * task.width;
    const float2 means = group_means(job.weight + task.first + at, job.dbias + sums + at,
                                     job.dweight + sums + at, task.width, pixels);
    for (int64_t c = at + lane_of_thread(); c < at + task.width; c += kLanes) {
      dunit_mean[c] = means.x;
      dunit_unit_mean[c] = means.y;
    }
  }
  __syncthreads();
  for_columns(task.count / kVector, [&](const Grid& grid, int64_t column, bool active) {
    if (!active) return;
    const Channels<kVector> here(job, task, column);
    float means[kVector];
    float unit_means[kVector];
    for (int k = 0; k < kVector; ++k) {
      means[k] = dunit_mean[column * kVector + k];
      unit_means[k] = dunit_unit_mean[column * kVector + k];
    }
    const int64_t at = task.begin + column * kVector;
#pragma unroll 2
    for (int64_t p = grid.row; p < pixels; p += grid.rows) {
      const Pack<T, kVector> xs = load_pack<kVector>(job.x + at + p * channels);
      Pack<T, kVector> pack = load_pack<kVector>(job.dy + at + p * channels);
      for (int k = 0; k < kVector; ++k) {
        const float unit = here.unit(k, load(xs.values[k]));
        const float dunit = here.dz(job.act, k, load(pack.values[k]), unit) * here.weight[k];
        store(pack.values[k], here.rstd[k] * (dunit - means[k] - unit * unit_means[k]));
      }
      store_pack<kVector>(job.dx + at + p * channels, pack);
    }
  });
}

// y from its statistics, in one sweep.

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

/// Returns whether every run of neighbours that the kernels read begins and ends with a pack.
template <typename T>
bool fills_packs(const GroupNorm<T>& job) {
  const int64_t width = job.shape.channels / job.groups;
  const int64_t run = job.shape.channels_last ? job.groups_per_task * width : job.shape.pixels;
  const bool whole =
      run % kWide<T> == 0 && (!job.shape.channels_last || job.shape.channels % kWide<T> == 0);
  for (const void* address : {static_cast<const void*>(job.x), static_cast<const void*>(job.y),
                              static_cast<const void*>(job.dy), static_cast<const void*>(job.dx)}) {
    if (!starts_a_pack(address)) return false;
  }
  return whole;
}

template <typename T>
unsigned blocks_of(const GroupNorm<T>& job) {
  return static_cast<unsigned>(job.shape.samples * job.tasks_per_sample());
}

/// Holds a kernel for runs that fill packs, and one for others.
template <typename T>
struct Widths {
  void (*packs)(GroupNorm<T> job);
  void (*elements)(GroupNorm<T> job);
};

/// Starts the kernel that suits the memory of the job.
template <typename T>
void launch(const GroupNorm<T>& job, const Widths<T>& pixels, const Widths<T>& planes) {
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  const Widths<T>& kernels = job.shape.channels_last ? pixels : planes;
  const auto kernel = fills_packs(job) ? kernels.packs : kernels.elements;
  kernel<<<blocks_of(job), kThreads, 0, stream>>>(job);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <typename T>
void forward(const GroupNorm<T>& job) {
  launch<T>(job, {forward_pixels<T, kWide<T>>, forward_pixels<T, 1>},
            {forward_planes<T, kWide<T>>, forward_planes<T, 1>});
}

template <typename T>
void backward(const GroupNorm<T>& job) {
  launch<T>(job, {backward_pixels<T, kWide<T>>, backward_pixels<T, 1>},
            {backward_planes<T, kWide<T>>, backward_planes<T, 1>});
}

template <typename T, int kVector>
void launch_from_statistics(const GroupNorm<T>& job) {
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
  wide ? launch_from_statistics<T, kWide<T>>(job) : launch_from_statistics<T, 1>(job);
}

}  // namespace
}  // namespace device

namespace cuda {

void forward(const GroupNorm<float>& job) {
  device::forward(job);
}
void forward(const GroupNorm<BFloat16>& job) {
  device::forward(job);
}
void from_statistics(const GroupNorm<float>& job) {
  device::from_statistics(job);
}
void from_statistics(const GroupNorm<BFloat16>& job) {
  device::from_statistics(job);
}
void backward(const GroupNorm<float>& job) {
  device::backward(job);
}
void backward(const GroupNorm<BFloat16>& job) {
  device::backward(job);
}

int64_t groups_per_task(const Shape& shape, int64_t groups, int64_t element_bytes) {
  constexpr int64_t kLineBytes = 128;
  if (!shape.channels_last) return 1;
  const int64_t group_bytes = shape.channels / groups * element_bytes;
  return std::clamp<int64_t>(kLineBytes / group_bytes, 1, groups);
}

}  // namespace cuda
}  // namespace noisemark::baselines::kernels
