#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "memopt/accounting/owner.h"

namespace at {
class Tensor;
}  // namespace at
namespace c10 {
struct Device;
struct StorageImpl;
}  // namespace c10

namespace noisemark::memopt {

/// One live allocation of a device's allocator.
struct Block {
  uint64_t number = 0;                   ///< never used twice in a process
  int64_t bytes = 0;                     ///< size that was requested
  Owner born_as = Owner::kUnattributed;  ///< the OwnerScope it was born in
};

/// Hears of every allocation and release of a device, on whatever thread it happens. Must not
/// allocate through LibTorch, and must not throw.
class AllocationListener {
 public:
  virtual ~AllocationListener() = default;
  virtual void on_allocate(const Block& block) noexcept = 0;
  virtual void on_release(const Block& block) noexcept = 0;
};

/// The live bytes at the instant a listener was attached. Every later event reaches the listener,
/// so these bytes plus its events are the live bytes at any time.
struct AllocationBaseline {
  int64_t live_bytes = 0;
  int64_t born_bytes[kOwnerCount] = {};  ///< part of live_bytes born in each OwnerScope
};

/// An allocator whose events can be followed: the CPU's (tracking_allocator.h) or a GPU's.
class AllocationSource {
 public:
  virtual ~AllocationSource() = default;
  /// Results spell it so: "wrapping CPU allocator".
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// One listener at a time; it must outlive its attachment. Throws when there is one already.
  virtual AllocationBaseline attach(AllocationListener& listener) = 0;
  /// On return no thread is inside the listener, nor will be.
  virtual void detach() = 0;
  /// The block that holds this storage; empty for memory of another origin and for no bytes.
  [[nodiscard]] virtual std::optional<Block> find(const c10::StorageImpl& storage) const = 0;
  [[nodiscard]] virtual int64_t live_bytes() const = 0;
  /// The most live bytes since it was last asked. HighMark shares the answer among all who ask.
  [[nodiscard]] virtual int64_t take_high_bytes() = 0;

 private:
  friend class HighMark;
  std::mutex marks_mutex_;
  std::vector<int64_t*> marks_;  ///< the highest that each reader has not yet been told
};

/// Returns null when the device's allocations cannot be followed.
[[nodiscard]] AllocationSource* find_allocation_source(c10::Device device);

/// The memory that libraries keep of the device's allocator from one call to the next, as tensors
/// that own nothing: of CUDA the workspaces of cuBLAS and cuBLASLt, one per stream. It is empty of
/// a CPU, whose libraries have allocators of their own.
[[nodiscard]] std::vector<at::Tensor> library_workspaces(c10::Device device);

/// The most live bytes of a device between two readings, for any number of readers at a time: each
/// has its own mark. Thread-safe. What is live is the process's, whoever allocated it.
class HighMark {
 public:
  /// Reads from now on. The source must outlive it.
  explicit HighMark(AllocationSource& source) : source_(source) {
    const std::lock_guard lock(source_.marks_mutex_);
    // The level from before belongs to the other readers alone.
    tell_readers();
    source_.marks_.push_back(&seen_bytes_);
  }
  ~HighMark() {
    const std::lock_guard lock(source_.marks_mutex_);
    std::erase(source_.marks_, &seen_bytes_);
  }
  HighMark(const HighMark&) = delete;
  HighMark& operator=(const HighMark&) = delete;

  [[nodiscard]] int64_t live_bytes() const { return source_.live_bytes(); }
  /// The most since it was last asked, or since it was made.
  [[nodiscard]] int64_t take() {
    const std::lock_guard lock(source_.marks_mutex_);
    tell_readers();
    return std::exchange(seen_bytes_, 0);
  }

 private:
  /// Tells all readers of a level that one of them takes.
  void tell_readers() {
    const int64_t high_bytes = source_.take_high_bytes();
    for (int64_t* mark : source_.marks_) *mark = std::max(*mark, high_bytes);
  }

  AllocationSource& source_;
  int64_t seen_bytes_ = 0;  ///< bytes in what other readers took; the source guards it
};

}  // namespace noisemark::memopt
