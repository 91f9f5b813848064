#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "reports/result/result.h"
#include "suite/environment/gpu_counters.h"

/// Measures what a GPU's allocator holds beyond live tensors, and what the process holds beyond it.

namespace noisemark::suite {

using AllocatorStats = c10::CachingDeviceAllocator::DeviceStats;

/// Takes the allocator's own figures at both ends of a step, peaks reset at its begin. A pure
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
  std::optional<int64_t> recording_bytes;  ///< is empty where none was recorded
};

/// Takes the allocator's figures at the end of a training pass, peaks reset at its begin; empty
/// where it counts nothing. A pure function.
[[nodiscard]] reports::TrainingMemory training_memory_of(c10::Device device,
                                                         const std::optional<AllocatorStats>& end,
                                                         const Repetitions& repeated);

/// Watches from its construction, at the begin of a step or pass, to its end. Does nothing on a
/// CPU.
class DeviceMemoryWatch {
 public:
  explicit DeviceMemoryWatch(c10::Device device);
  [[nodiscard]] reports::DeviceMemory finish() const;
  /// The figures of now; empty where the allocator counts nothing.
  [[nodiscard]] std::optional<AllocatorStats> stats() const;

 private:
  c10::DeviceAllocator* allocator_ = nullptr;  ///< is null where it counts nothing
  c10::Device device_;
  AllocatorStats begin_;
};

/// Resident memory of this process as the kernel counts it.
struct ResidentMemory {
  int64_t peak_bytes = 0;  ///< high-water mark since reset_resident_peak()
  int64_t file_bytes = 0;  ///< resident now of mapped files, programs and libraries
};

/// Starts the high-water mark anew. Returns why it could not, empty on success.
[[nodiscard]] std::string reset_resident_peak();

/// The figures, or why they cannot be had.
[[nodiscard]] std::variant<ResidentMemory, std::string> read_resident_memory();

}  // namespace noisemark::suite
