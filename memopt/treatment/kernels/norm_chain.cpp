// This file is compiled once per instruction set: the flags and the namespace NOISEMARK_LEVEL come
// from CMake.
#include "memopt/treatment/kernels/norm_chain.h"

#define NOISEMARK_INLINE inline __attribute__((always_inline))

namespace noisemark::memopt::treatment::NOISEMARK_LEVEL {
namespace {

NOISEMARK_INLINE float float_of(uint32_t bits) {
  float x = 0;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

NOISEMARK_INLINE uint32_t bits_of(float x) {
  uint32_t bits = 0;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}

#if defined(__FMA__) || defined(__aarch64__)

/// 1 + e^x with the bits that SLEEF's expf_u10 (Shibata and Petrogalli, 2020) gives, which ATen's
/// vectors call: e^x = 2^n e^s. The coefficients are SLEEF's. Where it clears and saturates, sizes
/// are limited instead: 2^n is 0 from n = -126 on, where 1 + e^x is 1, and infinite from 129 on.
NOISEMARK_INLINE float one_plus_exp(float x) {
  constexpr uint32_t kSign = 0x80000000U;
  constexpr uint32_t kLargest = 0x42b30000U;  // 89.5
  constexpr int32_t kBias = 126;              // bias of the exponent, less one: u + u is 2 u
  const uint32_t size = bits_of(x) & ~kSign;
  x = float_of((size < kLargest ? size : kLargest) | (bits_of(x) & kSign));
  const float n = __builtin_rintf(x * 1.44269504088896340736F);
  float s = __builtin_fmaf(n, -0.693145751953125F, x);
  s = __builtin_fmaf(n, -1.428606765330187045e-06F, s);
  float u = 0.000198527617612853646278381F;
  u = __builtin_fmaf(u, s, 0.00139304355252534151077271F);
  u = __builtin_fmaf(u, s, 0.00833336077630519866943359F);
  u = __builtin_fmaf(u, s, 0.0416664853692054748535156F);
  u = __builtin_fmaf(u, s, 0.166666671633720397949219F);
  u = __builtin_fmaf(u, s, 0.5F);
  u = 1.0F + __builtin_fmaf(s * s, u, s);
  const int32_t exponent = static_cast<int32_t>(n) + kBias;
  return 1.0F + (u + u) * float_of(static_cast<uint32_t>(exponent > 0 ? exponent : 0) << 23U);
}

#else

/// ATen calls the C library without vectors of its own.
NOISEMARK_INLINE float one_plus_exp(float x) {
  return 1.0F + __builtin_expf(x);
}

#endif

template <Activation activation>
NOISEMARK_INLINE float activate(float x) {
  if constexpr (activation == Activation::kSilu) return x / one_plus_exp(-x);
  if constexpr (activation == Activation::kRelu) return x < 0 ? 0 : x;
  return x;
}

template <NormForm form>
NOISEMARK_INLINE float normalize(float x, float scale, float shift) {
  if constexpr (form == NormForm::kWithoutAffine) return (x - shift) * scale;
  if constexpr (fuses_value(form)) return fused(x, scale, shift);
  return x * scale + shift;
}

void prepare(const NormChain& job) {
  for (int64_t i = 0; i < job.samples * job.channels; ++i) prepare_channel(job, i);
}

/// All of a row with the same scale and shift.
template <Activation activation, NormForm form, bool masked>
void plane(const float* x, const float* factor, float* y, int64_t count, float scale, float shift) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float value = activate<activation>(normalize<form>(x[i], scale, shift));
    y[i] = masked ? value * factor[i] : value;
  }
}

/// Each of a row with its own.
template <Activation activation, NormForm form, bool masked>
void pixel(const float* x, const float* factor, float* y, int64_t count, const float* scale,
           const float* shift) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float value = activate<activation>(normalize<form>(x[i], scale[i], shift[i]));
    y[i] = masked ? value * factor[i] : value;
  }
}

template <Activation activation, NormForm form, bool masked>
void rows(const NormChain& job, int64_t begin, int64_t end) {
  const int64_t length = job.channels_last ? job.channels : job.pixels;
  for (int64_t row = begin; row < end; ++row) {
    const float* x = job.x + row * length;
    const float* factor = masked ? job.factor + row * length : nullptr;
    float* y = static_cast<float*>(job.y) + row * length;
    if (job.channels_last) {
      const int64_t table = row / job.pixels * job.channels;
      pixel<activation, form, masked>(x, factor, y, length, job.scale + table, job.shift + table);
    } else {
      plane<activation, form, masked>(x, factor, y, length, job.scale[row], job.shift[row]);
    }
  }
}

template <Activation activation, NormForm form>
void masked_rows(const NormChain& job, int64_t begin, int64_t end) {
  job.factor == nullptr ? rows<activation, form, false>(job, begin, end)
                        : rows<activation, form, true>(job, begin, end);
}

template <Activation activation>
void formed_rows(const NormChain& job, int64_t begin, int64_t end) {
  if (job.form == NormForm::kWithoutAffine) {
    return masked_rows<activation, NormForm::kWithoutAffine>(job, begin, end);
  }
  fuses_value(job.form) ? masked_rows<activation, NormForm::kFused>(job, begin, end)
                        : masked_rows<activation, NormForm::kRounded>(job, begin, end);
}

void run(const NormChain& job, int64_t begin, int64_t end) {
  switch (job.activation) {
    case Activation::kNone:
      return formed_rows<Activation::kNone>(job, begin, end);
    case Activation::kRelu:
      return formed_rows<Activation::kRelu>(job, begin, end);
    case Activation::kSilu:
      return formed_rows<Activation::kSilu>(job, begin, end);
  }
}

}  // namespace

extern const NormChainKernels kNormChain;
const NormChainKernels kNormChain = {prepare, run};

}  // namespace noisemark::memopt::treatment::NOISEMARK_LEVEL
