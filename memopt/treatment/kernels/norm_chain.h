#pragma once

#include <cstdint>

#include "memopt/codecs/arithmetic/bits.h"
#include "memopt/device/cpu_level.h"

/// Group norm from its saved statistics, an activation and a mask in one pass over plain memory, no
/// torch. Their source is compiled once per instruction set, because ATen rounds differently in
/// each.
namespace noisemark::memopt::treatment {

enum class Activation : uint8_t { kNone, kRelu, kSilu };

/// Ways to write the same normalisation, which round differently.
enum class NormForm : uint8_t {
  kFused,          ///< x * scale + shift rounded once, as is shift = beta - mean * scale
  kFusedShift,     ///< only shift is rounded once
  kFusedValue,     ///< only x * scale + shift is rounded once
  kRounded,        ///< every operation is rounded
  kWithoutAffine,  ///< (x - mean) * rstd
};
inline constexpr NormForm kNormForms[] = {NormForm::kFused, NormForm::kFusedShift,
                                          NormForm::kFusedValue, NormForm::kRounded,
                                          NormForm::kWithoutAffine};

/// The type that y is rounded to, to nearest and ties to even.
enum class NormStore : uint8_t { kFloat32, kBFloat16, kFloat16 };

/// y = activation(norm(x)) * factor. A row is the pixels of one channel of one sample where memory
/// is ordered [samples, channels, pixels], the channels of one pixel where it is [samples, pixels,
/// channels].
struct NormChain {
  int64_t samples = 0;
  int64_t channels = 0;
  int64_t groups = 1;
  int64_t pixels = 0;
  bool channels_last = false;
  NormForm form = NormForm::kFused;
  Activation activation = Activation::kNone;
  NormStore store = NormStore::kFloat32;  ///< is kFloat32 on a CPU
  const float* x = nullptr;
  const float* mean = nullptr;    ///< [samples, groups]
  const float* rstd = nullptr;    ///< the same
  const float* weight = nullptr;  ///< [channels]; null: 1
  const float* bias = nullptr;    ///< [channels]; null: 0
  const float* factor = nullptr;  ///< factors of x's form; null stands for 1
  float* scale = nullptr;         ///< scratch, [samples, channels]
  float* shift = nullptr;         ///< the same
  void* y = nullptr;              ///< result of the type that `store` names

  [[nodiscard]] constexpr int64_t rows() const {
    return samples * (channels_last ? pixels : channels);
  }
};

NOISEMARK_SHARED constexpr bool fuses_shift(NormForm form) {
  return form == NormForm::kFused || form == NormForm::kFusedShift;
}

NOISEMARK_SHARED constexpr bool fuses_value(NormForm form) {
  return form == NormForm::kFused || form == NormForm::kFusedValue;
}

/// a * b + c, rounded once.
NOISEMARK_SHARED float fused(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

/// Fills scale and shift of channel i % channels of sample i / channels.
NOISEMARK_SHARED void prepare_channel(const NormChain& job, int64_t i) {
  const int64_t c = i % job.channels;
  const int64_t statistic = i / job.channels * job.groups + c / (job.channels / job.groups);
  const float mean = job.mean[statistic];
  const float rstd = job.rstd[statistic];
  if (job.form == NormForm::kWithoutAffine) {
    job.scale[i] = rstd;
    job.shift[i] = mean;
    return;
  }
  const float scale = rstd * (job.weight == nullptr ? 1.0F : job.weight[c]);
  const float bias = job.bias == nullptr ? 0.0F : job.bias[c];
  job.scale[i] = scale;
  job.shift[i] = fuses_shift(job.form) ? fused(-scale, mean, bias) : -scale * mean + bias;
}

struct NormChainKernels {
  /// Fills scale and shift.
  void (*prepare)(const NormChain& job);
  /// Does rows [begin, end), which are independent.
  void (*run)(const NormChain& job, int64_t begin, int64_t end);
};

/// Does all of a job whose pointers are to the device's memory.
using NormChainOnDevice = void (*)(const NormChain& job);

/// Rows split among at::get_num_threads() threads.
void run_norm_chain_on_cpu(const NormChain& job);

/// `level` at most current_cpu_level().
[[nodiscard]] const NormChainKernels& norm_chain_kernels(CpuLevel level);

}  // namespace noisemark::memopt::treatment
