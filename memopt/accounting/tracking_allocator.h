#pragma once

#include <cstdint>
#include <optional>

#include "memopt/accounting/allocation_source.h"
#include "memopt/accounting/owner.h"

namespace noisemark::memopt {

/// Wraps LibTorch's CPU allocator so that every allocation of every thread is counted exactly. Each
/// block carries a 64-byte header in front of the data (size, a number that is never used twice,
/// owner tag), so finding out costs no table and no lock. Call first thing in main, before LibTorch
/// allocates; idempotent. Figures are requested bytes, headers excluded. Out of memory is
/// LibTorch's own exception, and so is an allocation with which there would be more than
/// `limit_bytes` live: what the kernel would grant and then end the process for. The limit is that
/// of the last call; empty: none.
void install_tracking_allocator(std::optional<int64_t> limit_bytes = std::nullopt);

/// The bytes that every block takes beside those asked for; 0 where it is not installed. LibTorch's
/// profiler counts them as taken.
[[nodiscard]] int64_t header_bytes();

/// The CPU's allocations as events. Throws when install_tracking_allocator() was not called.
[[nodiscard]] AllocationSource& cpu_allocation_source();

/// While alive, allocations of this thread are born with `owner` (the loader's threads use it for
/// their buffers).
class [[nodiscard]] OwnerScope {
 public:
  explicit OwnerScope(Owner owner);
  ~OwnerScope();
  OwnerScope(const OwnerScope&) = delete;
  OwnerScope& operator=(const OwnerScope&) = delete;

 private:
  Owner previous_;
};

/// The owner of this thread's innermost OwnerScope; kUnattributed outside.
[[nodiscard]] Owner current_birth_owner() noexcept;

}  // namespace noisemark::memopt
