#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "suite/environment/gpm.h"
#include "suite/environment/nvml.h"

namespace noisemark::suite {

/// What a GPU is doing at one instant; empty where the driver does not say.
struct GpuReading {
  std::optional<double> power_w;
  std::optional<double> sm_clock_mhz;
  std::optional<double> memory_clock_mhz;
  std::optional<double> temperature_c;
  std::optional<uint64_t> clock_reasons;  ///< NVML's mask of what holds the clocks down
};

/// What can be read of a GPU beside the programs that run on it. Tests have their own.
class GpuCounters {
 public:
  virtual ~GpuCounters() = default;
  /// On any thread, also within a window.
  [[nodiscard]] virtual GpuReading read() = 0;
  /// Since the driver was loaded.
  [[nodiscard]] virtual std::optional<uint64_t> energy_mj() = 0;
  virtual void begin_window() = 0;
  /// One for each of gpm_metrics().
  [[nodiscard]] virtual std::vector<GpmValue> end_window(double window_s) = 0;
  /// How many processes beside this one compute on the GPU; empty where that is not known.
  [[nodiscard]] virtual std::optional<size_t> other_processes() = 0;
  /// That this process holds, libraries and CUDA's own included.
  [[nodiscard]] virtual ProcessMemory process_memory() = 0;
};

/// Those of NVML. `ordinal` counts as CUDA counts. What cannot be read is empty, with its reason.
[[nodiscard]] std::unique_ptr<GpuCounters> make_gpu_counters(int ordinal);

}  // namespace noisemark::suite
