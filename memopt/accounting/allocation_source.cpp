#include "memopt/accounting/allocation_source.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace noisemark::memopt {

namespace {

/// Tells all readers of a level that one of them took.
void tell(const std::vector<int64_t*>& marks, int64_t high_bytes) {
  for (int64_t* mark : marks) *mark = std::max(*mark, high_bytes);
}

}  // namespace

HighMark::HighMark(AllocationSource& source) : source_(source) {
  const std::lock_guard lock(source_.marks_mutex_);
  // The level from before belongs to the other readers alone.
  tell(source_.marks_, source_.take_high_bytes());
  source_.marks_.push_back(&seen_bytes_);
}

HighMark::~HighMark() {
  const std::lock_guard lock(source_.marks_mutex_);
  std::erase(source_.marks_, &seen_bytes_);
}

int64_t HighMark::take() {
  const std::lock_guard lock(source_.marks_mutex_);
  tell(source_.marks_, source_.take_high_bytes());
  return std::exchange(seen_bytes_, 0);
}

}  // namespace noisemark::memopt
