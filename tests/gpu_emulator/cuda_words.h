#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

#include "tests/gpu_emulator/emulator.h"

/// The words of CUDA C++ that our kernels use, for a compiler that knows none of them: given to it
/// before every source that translate.py made. Functions of a warp are for numbers of at most 64
/// bits. The fast functions (__expf, __fdividef) are as exact here as the CPU's: bounds on a GPU's
/// errors are tested on a GPU.
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(threads)

#define threadIdx (::noisemark::test::gpu::thread_index())
#define blockIdx (::noisemark::test::gpu::block_index())
#define blockDim (::noisemark::test::gpu::block_size())
#define gridDim (::noisemark::test::gpu::grid_size())

struct float2 {
  float x;
  float y;
};

inline void __syncthreads(const std::source_location& place = std::source_location::current()) {
  noisemark::test::gpu::synchronize_threads(place);
}

namespace noisemark::test::gpu {

template <typename Number>
uint64_t as_bits(Number number) {
  static_assert(sizeof number <= sizeof(uint64_t) && std::is_trivially_copyable_v<Number>);
  uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof number);
  return bits;
}

template <typename Number>
Number of_bits(uint64_t bits) {
  Number number{};
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

template <typename Number, typename Join>
Number reduce(uint32_t mask, WarpWork work, Number own, const Place& place, const Join& join) {
  static_assert(sizeof own == 4 && std::is_integral_v<Number>, "what __reduce_*_sync takes");
  const auto all = exchange(mask, work, as_bits(own), place);
  Number joined = own;
  for (int other = 0; other < kWarpLanes; ++other) {
    if (other == lane() || (mask >> other & 1) == 0) continue;
    joined = join(joined, of_bits<Number>(all[static_cast<size_t>(other)]));
  }
  return joined;
}

}  // namespace noisemark::test::gpu

template <typename Number>
Number __shfl_xor_sync(uint32_t mask, Number own, int distance,
                       const std::source_location& place = std::source_location::current()) {
  using namespace noisemark::test::gpu;  // NOLINT(google-build-using-namespace)
  const auto all = exchange(mask, WarpWork::kShuffle, as_bits(own), place);
  const auto other = static_cast<size_t>(lane() ^ distance);
  // A GPU gives an undefined number from a lane that takes no part.
  return (mask >> other & 1) != 0 ? of_bits<Number>(all.at(other)) : of_bits<Number>(~0ULL);
}

inline uint32_t __ballot_sync(uint32_t mask, int holds,
                              const std::source_location& place = std::source_location::current()) {
  using namespace noisemark::test::gpu;  // NOLINT(google-build-using-namespace)
  const auto all = exchange(mask, WarpWork::kBallot, holds != 0 ? 1 : 0, place);
  uint32_t votes = 0;
  for (size_t other = 0; other < all.size(); ++other) {
    if ((mask >> other & 1) != 0) votes |= static_cast<uint32_t>(all[other]) << other;
  }
  return votes;
}

template <typename Number>
Number __reduce_min_sync(uint32_t mask, Number own,
                         const std::source_location& place = std::source_location::current()) {
  return noisemark::test::gpu::reduce(mask, noisemark::test::gpu::WarpWork::kMinimum, own, place,
                                      [](Number a, Number b) { return std::min(a, b); });
}
template <typename Number>
Number __reduce_max_sync(uint32_t mask, Number own,
                         const std::source_location& place = std::source_location::current()) {
  return noisemark::test::gpu::reduce(mask, noisemark::test::gpu::WarpWork::kMaximum, own, place,
                                      [](Number a, Number b) { return std::max(a, b); });
}
inline uint32_t __reduce_add_sync(
    uint32_t mask, uint32_t own,
    const std::source_location& place = std::source_location::current()) {
  return noisemark::test::gpu::reduce(mask, noisemark::test::gpu::WarpWork::kSum, own, place,
                                      [](uint32_t a, uint32_t b) { return a + b; });
}
inline uint32_t __reduce_or_sync(
    uint32_t mask, uint32_t own,
    const std::source_location& place = std::source_location::current()) {
  return noisemark::test::gpu::reduce(mask, noisemark::test::gpu::WarpWork::kOr, own, place,
                                      [](uint32_t a, uint32_t b) { return a | b; });
}

// Threads have their turn one at a time, so nothing comes between.

template <typename Number>
Number atomicCAS(Number* at, Number expected, Number wanted) {
  const Number before = *at;
  if (before == expected) *at = wanted;
  return before;
}
template <typename Number>
Number atomicAdd(Number* at, Number more) {
  const Number before = *at;
  *at = before + more;
  return before;
}

inline int __ffs(int word) {
  return __builtin_ffs(word);
}
inline float __uint_as_float(uint32_t bits) {
  return std::bit_cast<float>(bits);
}
inline float __fdividef(float a, float b) {
  return a / b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fmaf(a, b, c);
}
// The C library has declared a function of this name.
#define __expf(x) std::exp(x)

inline int64_t min(int64_t a, int64_t b) {
  return std::min(a, b);
}
