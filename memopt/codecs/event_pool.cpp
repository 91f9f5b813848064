#include "memopt/codecs/event_pool.h"

#include <utility>

namespace noisemark::memopt::codecs {

c10::Event EventPool::take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (idle_.empty()) {
    ++made_;
    return c10::Event(type_);
  }
  c10::Event event = std::move(idle_.back());
  idle_.pop_back();
  return event;
}

void EventPool::give_back(c10::Event event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_.push_back(std::move(event));
}

int64_t EventPool::made() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return made_;
}

}  // namespace noisemark::memopt::codecs
