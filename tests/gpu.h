#pragma once

#include <c10/core/Device.h>

namespace noisemark {

/// The GPU that tests run on.
inline const c10::Device kGpu("cuda:0");

}  // namespace noisemark
