#pragma once

#include "baselines/kernels/types.h"

/// Scalar building blocks that compilers vectorise inside `#pragma omp simd` loops. Always inlined:
/// an out-of-line copy compiled for a newer instruction set could be linked into older callers.
#define NOISEMARK_INLINE inline __attribute__((always_inline))
/// Never inlined: whoever calls it gets the bits of the same instructions.
#define NOISEMARK_APART __attribute__((noinline))

namespace noisemark::baselines::kernels {

NOISEMARK_INLINE float as_float(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}
NOISEMARK_INLINE uint32_t as_bits(float value) {
  return __builtin_bit_cast(uint32_t, value);
}

NOISEMARK_INLINE float load(const float& value) {
  return value;
}
NOISEMARK_INLINE float load(const BFloat16& value) {
  return as_float(uint32_t{value.bits} << 16);
}

NOISEMARK_INLINE void store(float& to, float value) {
  to = value;
}
NOISEMARK_INLINE void store(BFloat16& to, float value) {
  const uint32_t bits = as_bits(value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet_nan = 0x7fc0;
  to.bits = static_cast<uint16_t>(value == value ? rounded : quiet_nan);
}

/// e^x, relative error at most 2e-7 (tests), for |x| <= 87, beyond which x counts as +-87; so does
/// NaN. 2^n * e^r with n the nearest integer to x / ln 2, so |r| <= ln(2) / 2; e^r by its Taylor
/// series, whose first omitted term is below 6e-9.
NOISEMARK_INLINE float exp_of(float x) {
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f;  // 10 bits, so that n * kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  // Clamps as integers, since compilers turn two float comparisons into branches, and those into
  // several divisions in the caller.
  const uint32_t size = as_bits(x) & 0x7fffffff;
  const uint32_t limit = as_bits(87.0f);
  x = as_float((size < limit ? size : limit) | (as_bits(x) & 0x80000000));
  const float shifted = x * kLog2E + kRounder;
  const float n = shifted - kRounder;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float sum = 1.0f / 5040;
  sum = sum * r + 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 0.5f;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  const uint32_t exponent = as_bits(shifted) - as_bits(kRounder) + 127;
  return sum * as_float(exponent << 23);
}

template <Act act>
NOISEMARK_INLINE float activate(float z) {
  if constexpr (act == Act::kSilu) return z / (1.0f + exp_of(-z));
  if constexpr (act == Act::kRelu) return z < 0.0f ? 0.0f : z;
  return z;
}

/// d activate / dz.
template <Act act>
NOISEMARK_INLINE float slope(float z) {
  if constexpr (act == Act::kSilu) {
    const float s = 1.0f / (1.0f + exp_of(-z));
    return s * (1.0f + z * (1.0f - s));
  }
  if constexpr (act == Act::kRelu) return z > 0.0f ? 1.0f : 0.0f;
  return 1.0f;
}

NOISEMARK_INLINE int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

template <Act act>
struct ActConstant {
  static constexpr Act value = act;
};

/// Calls `body` with the activation as a constant, so that no loop asks for it.
template <typename Body>
NOISEMARK_INLINE void with_constant(Act act, const Body& body) {
  switch (act) {
    case Act::kNone:
      return body(ActConstant<Act::kNone>{});
    case Act::kSilu:
      return body(ActConstant<Act::kSilu>{});
    case Act::kRelu:
      return body(ActConstant<Act::kRelu>{});
  }
}
}  // namespace noisemark::baselines::kernels
