#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/Event.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace noisemark::memopt {

/// Memory that is expensive to get, got once and lent out in pieces: a few large slabs, best fit,
/// neighbouring free pieces joined. Thread-safe. Torch-free.
class SlabPool {
 public:
  using Memory = std::shared_ptr<std::byte>;
  /// Gives that many bytes, a power of two, or null where it has them not.
  using Source = std::function<Memory(int64_t bytes)>;

  struct Usage {
    int64_t capacity_bytes = 0;  ///< bytes given by the source
    int64_t lent_bytes = 0;      ///< bytes with the padding to kAlignment
    int64_t refusals = 0;        ///< their number from the beginning on
  };

  /// Every piece begins at a multiple, if every slab does.
  static constexpr int64_t kAlignment = 256;
  static constexpr int64_t kSmallestSlab = 1 << 20;

  /// Takes slabs from `source`, largest first, until they hold `capacity_bytes` rounded down to
  /// kSmallestSlab. Where the source refuses a size it is asked for half.
  SlabPool(int64_t capacity_bytes, const Source& source);

  /// A piece that returns by itself; null, and counted, when no free piece is large enough. May
  /// outlive the pool.
  [[nodiscard]] Memory take(int64_t bytes);
  [[nodiscard]] Usage usage() const;

 private:
  class Slabs;
  std::shared_ptr<Slabs> slabs_;
};

}  // namespace noisemark::memopt

namespace noisemark::memopt::codecs {

/// Host memory that a device can copy from and to by itself. It is null where the host does not
/// give that much, and where there is no such device.
[[nodiscard]] SlabPool::Memory pinned_memory(int64_t bytes);

/// Events of one device, made once and taken again and again. What waits for an event keeps to the
/// record that it was told of, so one may be given back as soon as all that wait have been told.
/// Thread-safe.
class EventPool {
 public:
  explicit EventPool(c10::DeviceType type) : type_(type) {}

  /// One that nobody has; a new one where there is none.
  [[nodiscard]] c10::Event take();
  void give_back(c10::Event event);
  /// Returns how many were made so far: as many as were ever out at once.
  [[nodiscard]] int64_t made() const;

 private:
  c10::DeviceType type_;
  mutable std::mutex mutex_;
  std::vector<c10::Event> idle_;
  int64_t made_ = 0;
};

/// An event of a pool, which it goes back to.
class [[nodiscard]] PooledEvent {
 public:
  explicit PooledEvent(EventPool& pool) : pool_(pool), event_(pool.take()) {}
  ~PooledEvent() { pool_.give_back(std::move(event_)); }
  PooledEvent(const PooledEvent&) = delete;
  PooledEvent& operator=(const PooledEvent&) = delete;
  [[nodiscard]] c10::Event& get() { return event_; }

 private:
  EventPool& pool_;
  c10::Event event_;
};

}  // namespace noisemark::memopt::codecs
