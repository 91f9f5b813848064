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

/// From its construction, at the begin of a step, to its end. Does nothing on a CPU.
class DeviceMemoryWatch {
 public:
  explicit DeviceMemoryWatch(c10::Device device);
  [[nodiscard]] reports::DeviceMemory finish() const;

 private:
  c10::DeviceAllocator* allocator_ = nullptr;  ///< null: it counts nothing
  c10::Device device_;
  AllocatorStats begin_;
};

}  // namespace noisemark::suite
