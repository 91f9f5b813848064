#pragma once

#include <c10/core/Device.h>

#include <string>

namespace noisemark::memopt {

/// As the driver calls it: "NVIDIA H200".
[[nodiscard]] std::string cuda_device_model(c10::Device device);

}  // namespace noisemark::memopt
