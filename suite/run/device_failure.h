#pragma once

#include <optional>
#include <string>

#include "reports/error.h"

namespace noisemark::suite {

/// What an error of CUDA means to the one who runs the program.
struct DeviceFailure {
  ExitCode code = ExitCode::kInternal;
  std::string reason;  ///< what CUDA said, and what that means
};

/// Of LibTorch's text for it, without backtrace; empty for an error of another kind. Where the GPU
/// or its driver cannot run this program at all, the code is kCannotRunHere.
[[nodiscard]] std::optional<DeviceFailure> device_failure(const std::string& text);

}  // namespace noisemark::suite
