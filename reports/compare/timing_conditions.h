#pragma once

#include <string>

#include "reports/compare/sides.h"

namespace noisemark::reports {

/// A side of whose timings more saw the device slow itself down says nothing about the code.
inline constexpr double kMostThrottledFrac = 0.05;

/// Under what conditions the runs of a cell were timed.
struct TimingConditions {
  bool stored = false;   ///< not made in turns: what moved the machine in between is in the figures
  std::string unsteady;  ///< most runs of a side never became steady: which; empty: they did
  std::string throttled;  ///< the device slowed itself down in more than 5 % of a side: which
};

/// Made in turns: in the order of their creation, the side changes at least as often as there are
/// pairs, as it does in ABBA. A minority of runs that never became steady moves no median and is
/// left to the noise. The device slows itself down when it is too hot or short of power; a cap on
/// its power is how it always runs and does not count.
[[nodiscard]] TimingConditions timing_conditions(const Cell& cell);

}  // namespace noisemark::reports
