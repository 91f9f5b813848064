#pragma once

#include <cstdint>

#include "memopt/allocation_source.h"

namespace noisemark::memopt {

/// The most live bytes of a device between two readings, for any number of readers at a time: each
/// has its own mark. Thread-safe. What is live is the process's, whoever allocated it.
class HighMark {
 public:
  /// Reads from now on. The source must outlive it.
  explicit HighMark(AllocationSource& source);
  ~HighMark();
  HighMark(const HighMark&) = delete;
  HighMark& operator=(const HighMark&) = delete;

  [[nodiscard]] int64_t live_bytes() const { return source_.live_bytes(); }
  /// The most since it was last asked, or since it was made.
  [[nodiscard]] int64_t take();

 private:
  AllocationSource& source_;
  int64_t seen_bytes_ = 0;  ///< in what other readers took; guarded by the source
};

}  // namespace noisemark::memopt
