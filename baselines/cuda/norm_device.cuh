#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "baselines/kernels/types.h"

/// The norms' kernels share this. Sums are taken in an order that only the shape decides, so bits
/// repeat from run to run.
namespace noisemark::baselines::kernels::device {

constexpr int kLanes = 32;
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kLanes;
constexpr uint32_t kAllLanes = 0xffffffff;

__device__ __forceinline__ float load(float value) {
  return value;
}
__device__ __forceinline__ float load(BFloat16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}
__device__ __forceinline__ void store(float& to, float value) {
  to = value;
}
__device__ __forceinline__ void store(BFloat16& to, float value) {
  to.bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

/// The neighbours that one instruction moves.
template <typename T, int kVector>
struct alignas(sizeof(T) * kVector) Pack {
  T values[kVector];
};

template <int kVector, typename T>
__device__ __forceinline__ Pack<T, kVector> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, kVector>*>(from);
}
template <int kVector, typename T>
__device__ __forceinline__ void store_pack(T* to, const Pack<T, kVector>& pack) {
  *reinterpret_cast<Pack<T, kVector>*>(to) = pack;
}

/// The fast exponential and quotient: relative error below 2^-20 for the z that norms give.
__device__ __forceinline__ float sigmoid(float z) {
  return __fdividef(1.0f, 1.0f + __expf(-z));
}

__device__ __forceinline__ float activate(Act act, float z) {
  if (act == Act::kSilu) return __fdividef(z, 1.0f + __expf(-z));
  if (act == Act::kRelu) return z < 0.0f ? 0.0f : z;
  return z;
}

/// d activate / dz.
__device__ __forceinline__ float slope(Act act, float z) {
  if (act == Act::kSilu) {
    const float s = sigmoid(z);
    return s * (1.0f + z * (1.0f - s));
  }
  if (act == Act::kRelu) return z > 0.0f ? 1.0f : 0.0f;
  return 1.0f;
}

template <typename Number>
__device__ __forceinline__ Number warp_sum(Number value) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

__device__ __forceinline__ int lane_of_thread() {
  return static_cast<int>(threadIdx.x % kLanes);
}
__device__ __forceinline__ int warp_of_thread() {
  return static_cast<int>(threadIdx.x / kLanes);
}

/// Two sums over all threads of the block, for all of them. `shared` has room for 2 * kWarps.
__device__ __forceinline__ float2 block_sums(float2 value, float* shared) {
  value = {warp_sum(value.x), warp_sum(value.y)};
  __syncthreads();
  if (lane_of_thread() == 0) {
    shared[warp_of_thread()] = value.x;
    shared[kWarps + warp_of_thread()] = value.y;
  }
  __syncthreads();
  float2 sums{0, 0};
  for (int warp = 0; warp < kWarps; ++warp) {
    sums.x += shared[warp];
    sums.y += shared[kWarps + warp];
  }
  return sums;
}

/// The block's threads as rows of `lanes` threads: a lane keeps to one column (of packs), and the
/// rows share out what is to be added up.
struct Grid {
  int lanes;
  int rows;
  int lane;
  int row;

  __device__ explicit Grid(int64_t columns)
      : lanes(columns < kThreads ? static_cast<int>(columns) : kThreads),
        rows(kThreads / lanes),
        lane(static_cast<int>(threadIdx.x) % lanes),
        row(static_cast<int>(threadIdx.x) / lanes) {}

  /// Some threads are left over where the lanes do not divide their number.
  __device__ bool idle() const { return row >= rows; }
};

/// Adds up two arrays over the rows of a grid; afterwards the threads of row 0 hold the sums.
/// `shared` has room for 2 * kThreads * kVector.
template <int kVector>
__device__ __forceinline__ void sum_rows(const Grid& grid, float (&first)[kVector],
                                         float (&second)[kVector], float* shared) {
  float* own = shared + threadIdx.x * 2 * kVector;
  __syncthreads();
  for (int k = 0; k < kVector; ++k) {
    own[k] = first[k];
    own[kVector + k] = second[k];
  }
  __syncthreads();
  if (grid.row != 0) return;
  for (int row = 1; row < grid.rows; ++row) {
    const float* other = shared + (row * grid.lanes + grid.lane) * 2 * kVector;
    for (int k = 0; k < kVector; ++k) {
      first[k] += other[k];
      second[k] += other[kVector + k];
    }
  }
}

/// Calls `body(grid, column, active)` for every tile of columns, with the whole block; `active`:
/// the column is there, and this thread works on it.
template <typename Body>
__device__ __forceinline__ void for_columns(int64_t columns, const Body& body) {
  const Grid grid(columns);
  for (int64_t tile = 0; tile < columns; tile += grid.lanes) {
    body(grid, tile + grid.lane, !grid.idle() && tile + grid.lane < columns);
  }
}

/// Values of T in 16 bytes.
template <typename T>
constexpr int kWide = static_cast<int>(16 / sizeof(T));

inline bool starts_a_pack(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % 16 == 0;
}

}  // namespace noisemark::baselines::kernels::device
