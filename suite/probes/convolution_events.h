#pragma once

#include <torch/csrc/autograd/profiler_kineto.h>

#include "suite/probes/convolution_kernels.h"

namespace noisemark::suite {

/// What a profile tells of convolutions. The profiler must have recorded the shapes of inputs; a
/// stride that it did not record stays empty.
[[nodiscard]] ConvolutionEvents convolution_events(
    const torch::autograd::profiler::ProfilerResult& result);

}  // namespace noisemark::suite
