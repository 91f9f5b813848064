#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

#include "reports/profile/roofline.h"

namespace noisemark::suite {

/// The best single call of a fill, a sum, a copy and an addition in place within working sets from
/// 64 KiB on a CPU and 1 MiB on a GPU, each twice as large as the one before, up to what no
/// cache holds. With the threads in force. Takes about `seconds`; every call is made at least
/// twice.
[[nodiscard]] std::vector<reports::MemoryPeak> measure_memory_peaks(c10::Device device,
                                                                    double seconds);

}  // namespace noisemark::suite
