#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "memopt/device_clock.h"

namespace noisemark::memopt {

/// Marks are CUDA events on the device's current stream; it is held by a kernel of one thread that
/// looks at a word of the host's memory.
[[nodiscard]] std::unique_ptr<DeviceClock> make_cuda_event_clock(c10::Device device);

}  // namespace noisemark::memopt
