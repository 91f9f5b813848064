#pragma once

#include <cstdint>

/// Marks the arithmetic that the CPU's and the GPU's kernels share: both compile the same text, so
/// both give the same bits. Always inlined: a copy out of line, compiled for a newer instruction
/// set, could be linked into older callers. C++17, no torch, no CUDA header.
#ifdef __CUDACC__
#define NOISEMARK_SHARED __host__ __device__ __forceinline__
#define NOISEMARK_SHARED_LAMBDA
#else
#define NOISEMARK_SHARED inline __attribute__((always_inline))
#define NOISEMARK_SHARED_LAMBDA __attribute__((always_inline))
#endif

namespace noisemark::memopt::codecs {

NOISEMARK_SHARED uint32_t bits_of(float value) {
  return __builtin_bit_cast(uint32_t, value);
}
NOISEMARK_SHARED float float_of(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

template <typename T>
NOISEMARK_SHARED T smaller(T a, T b) {
  return a < b ? a : b;
}
template <typename T>
NOISEMARK_SHARED T larger(T a, T b) {
  return a < b ? b : a;
}

/// a < b for numbers below 2^31, as vector units compare: signed.
NOISEMARK_SHARED bool below(uint32_t a, uint32_t b) {
  return static_cast<int32_t>(a) < static_cast<int32_t>(b);
}

/// 2^exponent, -126 <= exponent <= 127.
NOISEMARK_SHARED float power_of_two(int exponent) {
  return float_of(static_cast<uint32_t>(exponent + 127) << 23);
}

/// Number of ones. It uses arithmetic that every vector unit has.
NOISEMARK_SHARED uint32_t ones_in(uint32_t word) {
#ifdef __CUDA_ARCH__
  return static_cast<uint32_t>(__popc(word));
#else
  const uint32_t pairs = word - ((word >> 1) & 0x55555555);
  const uint32_t fours = (pairs & 0x33333333) + ((pairs >> 2) & 0x33333333);
  return (((fours + (fours >> 4)) & 0x0f0f0f0f) * 0x01010101U) >> 24;
#endif
}

// IEEE binary32 as bits.
constexpr uint32_t kSignBit = 0x80000000;
constexpr uint32_t kMagnitudeBits = 0x7fffffff;
constexpr uint32_t kMantissaBits = 0x007fffff;
constexpr uint32_t kInfinityBits = 0x7f800000;
constexpr uint32_t kQuietNanBits = 0x7fc00000;

}  // namespace noisemark::memopt::codecs
