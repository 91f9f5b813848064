#pragma once

#include <c10/core/Device.h>

#include <optional>
#include <string_view>

#include "memopt/attribution.h"
#include "reports/result.h"

namespace noisemark::suite {

/// The limit that cuDNN is given for a convolution's scratch memory, in MiB.
inline constexpr const char* kWorkspaceLimitVariable = "CUDNN_CONV_WSCAP_DBG";

/// What that variable says, in bytes; empty where it is not set (null) or no number.
[[nodiscard]] std::optional<int64_t> workspace_limit(const char* mib);

/// What convolutions took of a GPU's allocator in the step that `record` is of. LibTorch asks the
/// allocator for a convolution's scratch memory itself, right inside the operator that calls cuDNN,
/// and gives it back before that ends; so it is what such an operator, and none within it, took and
/// gave back. A copy into another layout is made by an operator within, and a result outlives it.
/// A convolution that a memory mode runs again is not looked at: there, copies would be counted.
[[nodiscard]] reports::ConvolutionWorkspace convolution_workspace(
    c10::Device device, const memopt::AllocationRecord& record,
    const memopt::Attribution& attribution, std::optional<int64_t> limit_bytes);

}  // namespace noisemark::suite
