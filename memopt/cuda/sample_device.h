#pragma once

#include "memopt/replay/sample_device.h"

namespace noisemark::memopt::replay {

/// One block of threads for each sample.
[[nodiscard]] const SampleDevice& cuda_sample_device();

}  // namespace noisemark::memopt::replay
