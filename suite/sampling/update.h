#pragma once

#include <ATen/core/Tensor.h>

#include "suite/sampling/steps.h"

namespace noisemark::suite {

/// The update of one step, in place of `x` [N, C, H, W]. `out` is the network's output and `noise`
/// standard normals, both of x's shape and type; `noise` may be undefined where the step has none.
/// One pass over memory on a CPU where all three lie in one order, row-major or NHWC. Every value
/// depends on its own place only, so batches may be split at will. NaN stays NaN.
void update_sample(const SamplerStep& step, const at::Tensor& out, const at::Tensor& noise,
                   const at::Tensor& x);

}  // namespace noisemark::suite
