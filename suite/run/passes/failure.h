#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>

#include "reports/base/error.h"
#include "reports/result/result.h"

namespace noisemark::suite {

/// The memory that a GPU has left when something failed on it.
struct DeviceRoom {
  int64_t free_bytes = 0;  ///< memory that the driver would still give
  /// Requests that LibTorch's allocator has refused since the program began, or since they were
  /// forgotten.
  int64_t refusals = 0;
};

/// Returns whether so little memory is free, or so much was refused, that a library which found no
/// algorithm may have lacked memory: scratch memory of algorithms comes from the allocator, and the
/// code of kernels (tens of MiB) from the driver.
[[nodiscard]] bool is_short(const DeviceRoom& room);

/// Asks the current GPU; empty where none was used yet, or where it no longer answers.
[[nodiscard]] std::optional<DeviceRoom> room_on_gpu();

/// Forgets them after an out of memory that was looked for, so that what fails later is not laid to
/// it.
void forget_refusals_of_gpu();

/// The meaning of an error of CUDA to the one who runs the program.
struct DeviceFailure {
  ExitCode code = ExitCode::kInternal;
  std::string reason;  ///< CUDA's words and their meaning
};

/// Interprets LibTorch's text for it, without backtrace; empty for an error of another kind. Where
/// the GPU or its driver cannot run this program at all, the code is kCannotRunHere. cuDNN says the
/// same where it has no algorithm and where each needs more memory than there is: only a `room`
/// that is short makes that kOutOfMemory.
[[nodiscard]] std::optional<DeviceFailure> device_failure(
    const std::string& text, const std::optional<DeviceRoom>& room = std::nullopt);

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

/// The meaning of an exception that ends the program.
struct Failure {
  ExitCode code = ExitCode::kInternal;
  std::string status;   ///< status in a result: "out of memory", "cannot write" ...
  std::string reason;   ///< the cause, without LibTorch's backtrace
  std::string message;  ///< text for standard error: the reason, and where it needs one the status
};

[[nodiscard]] Failure failure_of(const std::exception& error);

}  // namespace noisemark::suite
