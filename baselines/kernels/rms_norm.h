#pragma once

#include "baselines/kernels/types.h"

namespace noisemark::baselines::kernels {

/// y = activation(x / max(|x|, eps) * alpha + beta), |x| over the channels of each pixel. A task is
/// up to kPixelsPerTask neighbouring pixels of one sample; tasks are independent.
template <typename T>
struct RmsNorm {
  static constexpr int64_t kPixelsPerTask = 256;

  Shape shape;
  double eps = 0;
  Act act = Act::kNone;
  const T* x = nullptr;
  const float* alpha = nullptr;   ///< [rows, channels]
  const float* beta = nullptr;    ///< [rows, channels]
  int64_t row_stride = 0;         ///< channels: one row per sample; 0: one row for all
  float* inverse_norm = nullptr;  ///< [samples, pixels], written by forward, read by the others
  float* scratch = nullptr;       ///< backward uses it, [tasks, channels]
  T* y = nullptr;                 ///< forward and from_statistics write it
  const T* dy = nullptr;          ///< gradient of y, which backward reads
  T* dx = nullptr;                ///< backward writes it
  float* dbeta = nullptr;         ///< backward writes it, [tasks, channels]: its sum over tasks is
                                  ///< the gradient
  float* dalpha = nullptr;        ///< backward writes it like dbeta

  [[nodiscard]] constexpr int64_t tasks_per_sample() const {
    return (shape.pixels + kPixelsPerTask - 1) / kPixelsPerTask;
  }
};

/// Each function does the tasks [begin, end) of samples * tasks_per_sample().
template <typename T>
struct RmsNormFunctions {
  void (*forward)(const RmsNorm<T>& job, int64_t begin, int64_t end);
  /// y again in one sweep, with the bits that forward() gave; the inverse norm is the one it wrote.
  void (*from_statistics)(const RmsNorm<T>& job, int64_t begin, int64_t end);
  void (*backward)(const RmsNorm<T>& job, int64_t begin, int64_t end);
};

struct RmsNormKernels {
  RmsNormFunctions<float> float32;
  RmsNormFunctions<BFloat16> bfloat16;
};

/// `level` at most current_cpu_level().
[[nodiscard]] const RmsNormKernels& rms_norm_kernels(Level level);

}  // namespace noisemark::baselines::kernels
