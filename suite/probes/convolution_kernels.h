#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reports/result.h"

/// Which kernels ran for the convolutions of some steps: pure functions of what a profiler saw.
namespace noisemark::suite {

/// One call of an operator in which cuDNN computes a convolution.
struct ConvolutionCall {
  uint64_t correlation = 0;  ///< number by which its kernels name it
  bool gradient = false;     ///< of input and weight; else forward
  std::vector<int64_t> input, weight, stride;
};

/// One kernel that ran on a GPU.
struct LaunchedKernel {
  std::string name;
  uint64_t launched_by = 0;  ///< correlation of the innermost operator around its launch
  int64_t duration_ns = 0;
};

struct ConvolutionEvents {
  std::vector<ConvolutionCall> calls;
  std::vector<LaunchedKernel> kernels;  ///< of these calls and of other operators
};

/// The direction in which a kernel that ran for a gradient works, by the words with which NVIDIA's
/// libraries name it: "data" (dgrad), "weight" (wgrad), and "gradient" for a name with neither:
/// transposing kernels, and convolutions that are computed as products or as forward ones.
[[nodiscard]] std::string_view gradient_direction(std::string_view kernel);

/// One row for each direction, shape, stride and kernel, with calls and time per step of `steps`.
/// By falling time; equal times by direction, shape, kernel.
[[nodiscard]] std::vector<reports::ConvolutionKernel> convolution_kernels(
    const ConvolutionEvents& events, int steps);

}  // namespace noisemark::suite
