#pragma once

#include <cstdint>
#include <optional>

namespace noisemark::suite {

/// What a GPU has left when something failed on it.
struct DeviceRoom {
  int64_t free_bytes = 0;  ///< that the driver would still give
  /// Requests that LibTorch's allocator has refused since the program began, or since they were
  /// forgotten.
  int64_t refusals = 0;
};

/// So little, or so much refused, that a library which found nothing that it can run may have
/// lacked memory: scratch memory of algorithms comes from the allocator, and the code of kernels
/// (tens of MiB) from the driver.
[[nodiscard]] bool is_short(const DeviceRoom& room);

/// Of the current GPU; empty where none was used yet, or where it no longer answers.
[[nodiscard]] std::optional<DeviceRoom> room_on_gpu();

/// After an out of memory that was looked for, so that what fails later is not laid to it.
void forget_refusals_of_gpu();

}  // namespace noisemark::suite
