#pragma once

#include <optional>
#include <string>

#include "reports/error.h"
#include "suite/run/device_room.h"

namespace noisemark::suite {

/// What an error of CUDA means to the one who runs the program.
struct DeviceFailure {
  ExitCode code = ExitCode::kInternal;
  std::string reason;  ///< what CUDA said, and what that means
};

/// Of LibTorch's text for it, without backtrace; empty for an error of another kind. Where the GPU
/// or its driver cannot run this program at all, the code is kCannotRunHere. cuDNN says the same
/// where it has no algorithm and where each needs more memory than there is: only a `room` that is
/// short makes that kOutOfMemory.
[[nodiscard]] std::optional<DeviceFailure> device_failure(
    const std::string& text, const std::optional<DeviceRoom>& room = std::nullopt);

}  // namespace noisemark::suite
