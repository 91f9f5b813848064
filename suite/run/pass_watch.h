#pragma once

#include <cstdint>
#include <string>

#include "suite/run/interrupt.h"
#include "suite/run/progress.h"

namespace noisemark::suite {

/// What every pass of a run is given: where to show what it does, and whether it is to end. Owns
/// neither.
struct PassWatch {
  Progress& line;
  const InterruptGuard& interrupt;

  /// To be called before step `step` (from 0) of `steps`: shows "PASS, step 2/5". Throws
  /// Interrupted when an end was requested.
  void before_step(const std::string& pass, int64_t step, int64_t steps) const;
};

}  // namespace noisemark::suite
