#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

#include "suite/environment/gpu_counters.h"
#include "suite/environment/pm_sampling.h"
#include "suite/probes/column_calibration.h"

namespace noisemark::suite {

/// How much work a load is made of.
struct LoadSize {
  int64_t product = 8192;                 ///< n of square products
  int64_t copy_bytes = int64_t{1} << 30;  ///< of one copy; many times a GPU's caches
  double profiled_s = 1;                  ///< of pieces that are also profiled, about
};

/// What reads a device beside a load.
struct LoadReaders {
  GpuCounters& counters;
  SampledCounters& sampled;
};

/// Keeps `device` at each load for about `seconds` while its counters are read, and as long again
/// in each window in which counters are sampled. Then profiles each, so that its busy time has two
/// sources: last, because the profiler stays attached afterwards, and after a while of the same
/// load, so that the clocks, which its power brings down, are those of the window. Nothing else
/// should use the device.
[[nodiscard]] std::vector<CalibrationRow> measure_loads(const std::vector<CalibrationLoad>& loads,
                                                        c10::Device device,
                                                        const LoadReaders& readers, double seconds,
                                                        const LoadSize& size = {});

}  // namespace noisemark::suite
