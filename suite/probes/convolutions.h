#pragma once

#include <c10/core/Device.h>
#include <c10/core/DeviceType.h>
#include <kineto/ActivityType.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memopt/accounting/attribution.h"
#include "reports/result/result.h"

namespace noisemark::suite {

/// An operator in which LibTorch calls cuDNN for a convolution, with the indices of its arguments.
struct ConvolutionOperator {
  std::string_view name;
  size_t input = 0;
  size_t weight = 0;
  size_t stride = 0;
  bool gradient = false;  ///< one call computes the gradients of input and weight
};

/// Returns null for any other. Those that pass the work on (aten::convolution, aten::_convolution)
/// are others: what they do themselves is to bring a tensor into another layout, or to add a bias.
[[nodiscard]] const ConvolutionOperator* find_convolution_operator(std::string_view name);

/// Finds the kernels that ran for the convolutions of some steps, by pure functions of what a
/// profiler saw.

/// One call of an operator in which cuDNN computes a convolution.
struct ConvolutionCall {
  uint64_t correlation = 0;  ///< number by which its kernels name it
  bool gradient = false;     ///< it computes the gradients of input and weight; else forward
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
  std::vector<LaunchedKernel> kernels;  ///< kernels of these calls and of other operators
};

/// The direction in which a kernel that ran for a gradient works, by the words with which NVIDIA's
/// libraries name it: "data" (dgrad), "weight" (wgrad), and "gradient" for a name with neither:
/// transposing kernels, and convolutions that are computed as products or as forward ones.
[[nodiscard]] std::string_view gradient_direction(std::string_view kernel);

/// One row for each direction, shape, stride and kernel, with calls and time per step of `steps`.
/// Rows come by falling time, and with equal times by direction, shape and kernel.
[[nodiscard]] std::vector<reports::ConvolutionKernel> convolution_kernels(
    const ConvolutionEvents& events, int steps);

[[nodiscard]] inline libkineto::ActivityType type_of(
    const torch::autograd::profiler::KinetoEvent& event) {
  return static_cast<libkineto::ActivityType>(event.activityType());
}

/// Returns whether an event of LibTorch's profiler may be a range of the host that can launch
/// kernels: an operator or a node of autograd. Calls of CUDA itself and what CUPTI cost stand on
/// the host's time line too, but are numbered by CUPTI: their numbers would take kernels away from
/// the operators that happen to have the same.
[[nodiscard]] constexpr bool is_host_range(c10::DeviceType device, libkineto::ActivityType type) {
  return device == c10::DeviceType::CPU && type != libkineto::ActivityType::CUDA_RUNTIME &&
         type != libkineto::ActivityType::CUDA_DRIVER && type != libkineto::ActivityType::OVERHEAD;
}

/// Returns what a profile tells of convolutions. The profiler must have recorded the shapes of
/// inputs; a stride that it did not record stays empty.
[[nodiscard]] ConvolutionEvents convolution_events(
    const torch::autograd::profiler::ProfilerResult& result);

/// The limit that cuDNN is given for a convolution's scratch memory, in MiB.
inline constexpr const char* kWorkspaceLimitVariable = "CUDNN_CONV_WSCAP_DBG";

/// Reads the value of that variable in bytes; empty where it is not set (null) or no number.
[[nodiscard]] std::optional<int64_t> workspace_limit(const char* mib);

/// Returns what convolutions took of a GPU's allocator in the step that `record` is of. LibTorch
/// asks the allocator for a convolution's scratch memory itself, right inside the operator that
/// calls cuDNN, and gives it back before that ends; so it is what such an operator, and none within
/// it, took and gave back. A copy into another layout is made by an operator within, and a result
/// outlives it. A convolution that a memory mode runs again is not looked at: there, copies would
/// be counted.
[[nodiscard]] reports::ConvolutionWorkspace convolution_workspace(
    c10::Device device, const memopt::AllocationRecord& record,
    const memopt::Attribution& attribution, std::optional<int64_t> limit_bytes);

}  // namespace noisemark::suite
