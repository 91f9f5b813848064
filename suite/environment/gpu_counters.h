#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reports/result.h"
#include "suite/environment/gpm.h"
#include "suite/environment/nvml.h"

namespace noisemark::suite {

/// What can be read of a GPU beside the programs that run on it. Tests have their own.
class GpuCounters {
 public:
  virtual ~GpuCounters() = default;
  /// What the GPU is doing now, at_s left at 0; empty where the driver does not say. On any thread,
  /// also within a window.
  [[nodiscard]] virtual reports::DeviceReading read() = 0;
  /// Since the driver was loaded.
  [[nodiscard]] virtual std::optional<uint64_t> energy_mj() = 0;
  virtual void begin_window() = 0;
  /// One for each of gpm_metrics().
  [[nodiscard]] virtual std::vector<GpmValue> end_window(double window_s) = 0;
  /// Of a divided GPU (MIG), which the values of a window are of; power, energy, clocks and
  /// temperature are of the whole GPU even so. Empty: not divided.
  [[nodiscard]] virtual std::optional<unsigned> instance() { return std::nullopt; }
  /// How many processes beside this one compute on the GPU, or on its instance; empty where that is
  /// not known.
  [[nodiscard]] virtual std::optional<size_t> other_processes() = 0;
  /// That this process holds, libraries and CUDA's own included.
  [[nodiscard]] virtual ProcessMemory process_memory() = 0;
};

/// Those of NVML. `ordinal` counts as CUDA counts. What cannot be read is empty, with its reason.
[[nodiscard]] std::unique_ptr<GpuCounters> make_gpu_counters(int ordinal);

}  // namespace noisemark::suite
