#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "memopt/plan/peak_timeline.h"

/// Memory that a timeline counts and that nobody has.
namespace noisemark::memopt {

class MemoryMeter {
 public:
  void add(int64_t saved, int64_t live) {
    now_.saved += saved;
    now_.live += live;
    high_.saved = std::max(high_.saved, now_.saved);
    high_.live = std::max(high_.live, now_.live);
  }
  [[nodiscard]] const MemoryLevel& now() const { return now_; }
  /// The most since it was last asked for.
  MemoryLevel take_high() { return std::exchange(high_, now_); }

 private:
  MemoryLevel now_;
  MemoryLevel high_;
};

/// A block of memory, live as long as it is referred to.
class SimulatedBlock {
 public:
  SimulatedBlock(MemoryMeter& meter, int64_t bytes, bool saved)
      : meter_(meter), bytes_(bytes), saved_(saved) {
    meter_.add(saved_ ? bytes_ : 0, bytes_);
  }
  ~SimulatedBlock() { meter_.add(saved_ ? -bytes_ : 0, -bytes_); }
  SimulatedBlock(const SimulatedBlock&) = delete;
  SimulatedBlock& operator=(const SimulatedBlock&) = delete;

  void save() {
    if (!std::exchange(saved_, true)) meter_.add(bytes_, 0);
  }
  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  MemoryMeter& meter_;
  const int64_t bytes_;
  bool saved_;
};
/// Null: memory that is nobody's to count.
using SimulatedMemory = std::shared_ptr<SimulatedBlock>;

}  // namespace noisemark::memopt
