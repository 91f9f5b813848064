#pragma once

#include <exception>
#include <optional>
#include <stdexcept>
#include <string>

#include "reports/result.h"
#include "suite/run/device_room.h"

namespace noisemark::suite {

/// An allocation failed; what() says who held what. Carries the peak where the step was watched.
class OutOfMemory : public std::runtime_error {
 public:
  explicit OutOfMemory(const std::string& what,
                       std::optional<reports::MemorySection> section = std::nullopt)
      : std::runtime_error(what), section_(std::move(section)) {}
  [[nodiscard]] const std::optional<reports::MemorySection>& section() const { return section_; }

 private:
  std::optional<reports::MemorySection> section_;
};

/// The message of `error` when it is a failed allocation (std::bad_alloc, LibTorch's for host or
/// device memory, or a library's of a GPU, which device_failure() knows), else empty. `room` is
/// asked what that GPU has left.
[[nodiscard]] std::optional<std::string> failed_allocation(
    const std::exception& error, std::optional<DeviceRoom> (*room)() = room_on_gpu);

}  // namespace noisemark::suite
