#pragma once

#include <c10/core/Device.h>

#include <filesystem>

#include "reports/events.h"

namespace noisemark::suite {

/// How fast the machine runs at this moment, as metadata of an event: cpu_clock_mhz, the mean of
/// all processors; with a GPU gpu_sm_clock_mhz, gpu_memory_clock_mhz, gpu_power_mw,
/// gpu_temperature_c and gpu_clock_reasons too. One that cannot be had is null, and KEY_missing
/// says why; in a virtual machine the processor's clock is, for Linux shows a constant there. Below
/// `root` lies /proc. Takes some milliseconds with a GPU.
[[nodiscard]] reports::EventMetadata machine_figures(const c10::Device& device,
                                                     const std::filesystem::path& root = "/");

}  // namespace noisemark::suite
