#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace noisemark::memopt::codecs {

/// Events of one device, made once and taken again and again. What waits for an event keeps to the
/// record that it was told of, so one may be given back as soon as all that wait have been told.
/// Thread-safe.
class EventPool {
 public:
  explicit EventPool(c10::DeviceType type) : type_(type) {}

  /// One that nobody has; a new one where there is none.
  [[nodiscard]] c10::Event take();
  void give_back(c10::Event event);
  /// So far: as many as were ever out at once.
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
