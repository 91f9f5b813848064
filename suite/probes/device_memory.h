#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

#include "reports/result.h"
#include "suite/environment/gpu_counters.h"

/// What a GPU's allocator holds beyond live tensors, and what the process holds beyond it.
namespace noisemark::suite {

using AllocatorStats = c10::CachingDeviceAllocator::DeviceStats;

/// From the allocator's own figures at both ends of a step, peaks reset at its begin. A pure
/// function.
[[nodiscard]] reports::DeviceMemory device_memory_of(const AllocatorStats& begin,
                                                     const AllocatorStats& end,
                                                     const ProcessMemory& process);

/// The process's bytes less the reserved ones; empty where either is not known, or the driver
/// counts less than the allocator took.
[[nodiscard]] std::optional<int64_t> outside_bytes(const reports::DeviceMemory& memory);

/// Steps that a device repeated from a recording.
struct Repetitions {
  int64_t steps = 0;
  std::optional<int64_t> recording_bytes;  ///< empty: none was recorded
};

/// From the allocator's figures at the end of a training pass, peaks reset at its begin; empty
/// where it counts nothing. A pure function.
[[nodiscard]] reports::TrainingMemory training_memory_of(c10::Device device,
                                                         const std::optional<AllocatorStats>& end,
                                                         const Repetitions& repeated);

/// From its construction, at the begin of a step or pass, to its end. Does nothing on a CPU.
class DeviceMemoryWatch {
 public:
  explicit DeviceMemoryWatch(c10::Device device);
  [[nodiscard]] reports::DeviceMemory finish() const;
  /// As they are now; empty where the allocator counts nothing.
  [[nodiscard]] std::optional<AllocatorStats> stats() const;

 private:
  c10::DeviceAllocator* allocator_ = nullptr;  ///< null: it counts nothing
  c10::Device device_;
  AllocatorStats begin_;
};

}  // namespace noisemark::suite
