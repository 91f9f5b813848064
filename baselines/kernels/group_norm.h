#pragma once

#include "baselines/kernels/types.h"

namespace noisemark::baselines::kernels {

/// y = activation((x - mean) * rstd * weight + bias), mean and rstd per sample and group (Wu and
/// He, 2018), in two sweeps over values that stay in cache. A task is `groups_per_task`
/// neighbouring groups of one sample; tasks are independent.
template <typename T>
struct GroupNorm {
  Shape shape;
  int64_t groups = 1;
  int64_t groups_per_task = 1;
  double eps = 0;
  Act act = Act::kNone;
  const T* x = nullptr;
  const float* weight = nullptr;  ///< [channels]
  const float* bias = nullptr;    ///< [channels]
  float* mean = nullptr;          ///< [samples, groups], written by forward, read by the others
  float* rstd = nullptr;          ///< the same
  float* scratch = nullptr;       ///< [samples, 4, channels]
  T* y = nullptr;                 ///< forward and from_statistics write it
  const T* dy = nullptr;          ///< gradient of y, which backward reads
  T* dx = nullptr;                ///< backward writes it
  float* dbias = nullptr;         ///< backward writes it, [samples, channels]: its sum over samples
                                  ///< is the gradient
  float* dweight = nullptr;       ///< backward writes it like dbias

  [[nodiscard]] constexpr int64_t tasks_per_sample() const {
    return (groups + groups_per_task - 1) / groups_per_task;
  }
};

/// Each function does the tasks [begin, end) of samples * tasks_per_sample().
template <typename T>
struct GroupNormFunctions {
  void (*forward)(const GroupNorm<T>& job, int64_t begin, int64_t end);
  /// y again in one sweep, with the bits that forward() gave; the mean and rstd are those it wrote.
  void (*from_statistics)(const GroupNorm<T>& job, int64_t begin, int64_t end);
  void (*backward)(const GroupNorm<T>& job, int64_t begin, int64_t end);
};

struct GroupNormKernels {
  GroupNormFunctions<float> float32;
  GroupNormFunctions<BFloat16> bfloat16;
};

/// `level` at most current_cpu_level().
[[nodiscard]] const GroupNormKernels& group_norm_kernels(Level level);

}  // namespace noisemark::baselines::kernels
