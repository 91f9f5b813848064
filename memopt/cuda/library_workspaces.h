#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <vector>

namespace noisemark::memopt {

/// Workspaces that LibTorch took from its caching allocator for cuBLAS and cuBLASLt, and keeps:
/// each as a tensor of one byte over the beginning of its block, which owns nothing.
[[nodiscard]] std::vector<at::Tensor> cuda_library_workspaces(c10::Device device);

}  // namespace noisemark::memopt
