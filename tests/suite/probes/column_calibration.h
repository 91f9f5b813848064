#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/result/result.h"
#include "suite/environment/gpu_counters.h"
#include "suite/environment/pm_sampling.h"

/// Checks whether a GPU's columns say what is known of loads that are made for it.

namespace noisemark::suite {

enum class CalibrationLoad : uint8_t {
  kIdle,
  kCopy,          ///< a kernel that reads and writes memory
  kProduct,       ///< large matrix products in bf16, by the tensor cores
  kHalfProduct,   ///< the same in fp16
  kFloatProduct,  ///< multiplies in fp32 without tf32, in the multiprocessors' own pipes
};

/// The loads, in the order in which they are made.
[[nodiscard]] const std::vector<CalibrationLoad>& calibration_loads();

[[nodiscard]] std::string_view load_name(CalibrationLoad load);

struct CalibrationRow {
  CalibrationLoad load = CalibrationLoad::kIdle;
  reports::DeviceUse use;
};

/// One thing that must hold of a load's columns.
struct CalibrationCheck {
  std::string what;           ///< "product: tensor active is at least 80 %"
  std::optional<bool> holds;  ///< is empty where a column is missing
  std::string found;          ///< the values, or the reason
};

/// Checks what must hold: products in bf16 and fp16 keep the tensor cores busy, those in fp32 the
/// pipes of fp32 and no tensor core, a copy the memory and no tensor core, an idle GPU nothing; two
/// sources of busy time, and two of every share that both define alike, agree within two points. Of
/// loads that are not among `rows` nothing is said.
[[nodiscard]] std::vector<CalibrationCheck> check_columns(const std::vector<CalibrationRow>& rows);

/// Writes Markdown: every column of every load, and the checks.
[[nodiscard]] std::string calibration_text(const std::vector<CalibrationRow>& rows,
                                           const std::vector<CalibrationCheck>& checks);

/// The amount of work that a load is made of.
struct LoadSize {
  int64_t product = 8192;                 ///< n of square products
  int64_t copy_bytes = int64_t{1} << 30;  ///< bytes of one copy; many times a GPU's caches
  double profiled_s = 1;                  ///< the length, about, of pieces that are also profiled
};

/// The readers of a device beside a load.
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
