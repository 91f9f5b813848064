#pragma once

#include "baselines/kernels/group_norm.h"
#include "baselines/kernels/rms_norm.h"

/// The norms on the current stream of the current GPU: all tasks of a job, whose pointers are to
/// the GPU's memory. Sums are in float32 as on the CPU, in another order.
namespace noisemark::baselines::kernels::cuda {

void forward(const GroupNorm<float>& job);
void forward(const GroupNorm<BFloat16>& job);
void from_statistics(const GroupNorm<float>& job);
void from_statistics(const GroupNorm<BFloat16>& job);
void backward(const GroupNorm<float>& job);
void backward(const GroupNorm<BFloat16>& job);

void forward(const RmsNorm<float>& job);
void forward(const RmsNorm<BFloat16>& job);
void from_statistics(const RmsNorm<float>& job);
void from_statistics(const RmsNorm<BFloat16>& job);
void backward(const RmsNorm<float>& job);
void backward(const RmsNorm<BFloat16>& job);

/// Returns as many groups as let a task read whole lines of memory where channels lie side by side,
/// and 1 elsewhere, which the kernels rely on.
[[nodiscard]] int64_t groups_per_task(const Shape& shape, int64_t groups, int64_t element_bytes);

}  // namespace noisemark::baselines::kernels::cuda
