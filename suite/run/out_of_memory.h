#pragma once

#include <exception>
#include <optional>
#include <stdexcept>
#include <string>

#include "reports/result.h"

namespace noisemark::suite {

/// An allocation failed. Carries who held what at that moment where it was being watched.
class OutOfMemory : public std::runtime_error {
 public:
  OutOfMemory(const std::string& what, reports::MemorySection section)
      : std::runtime_error(what), section_(std::move(section)) {}
  [[nodiscard]] const reports::MemorySection& section() const { return section_; }

 private:
  reports::MemorySection section_;
};

/// The message of `error` when it is a failed allocation (std::bad_alloc, or LibTorch's for host or
/// device memory), else empty.
[[nodiscard]] std::optional<std::string> failed_allocation(const std::exception& error);

}  // namespace noisemark::suite
