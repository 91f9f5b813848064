#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "suite/environment/gpu_counters.h"
#include "suite/environment/pm_sampling.h"
#include "suite/probes/column_calibration.h"

namespace noisemark::suite {

/// How much work a load is made of.
struct LoadSize {
  int64_t product = 8192;                 ///< n of square products
  int64_t copy_bytes = int64_t{1} << 30;  ///< of one copy; many times a GPU's caches
  int profiled = 20;                      ///< pieces that are also profiled
};

/// What reads a device beside a load.
struct LoadReaders {
  GpuCounters& counters;
  SampledCounters& sampled;
};

/// Keeps `device` at one load for about `seconds` while its counters are read, after a profile of
/// the same load, so that its busy time has two sources; then as long again in each window in which
/// counters are sampled. Nothing else should use the device.
[[nodiscard]] CalibrationRow measure_load(CalibrationLoad load, c10::Device device,
                                          const LoadReaders& readers, double seconds,
                                          const LoadSize& size = {});

}  // namespace noisemark::suite
