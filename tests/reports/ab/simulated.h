#pragma once

#include <cstdint>

#include "reports/ab/record.h"

namespace noisemark::reports::test {

/// The behaviour of a simulated machine.
struct Simulated {
  double slow_down = 0;       ///< the slow-down of B
  double turn_noise = 0.004;  ///< standard deviation of a turn's log time
  double pair_noise = 0.005;  ///< the deviation of what a process keeps for its life
  double drift = 0.2;         ///< the whole machine's, over a pair: it must not matter
  int64_t pairs = 6;          ///< number that is planned
  int64_t made = 6;
  int64_t blocks = 2;
  uint64_t seed = 1;
};

/// The record that `ab` would have made there. The losses are those of real training in shape only:
/// equal on both sides.
[[nodiscard]] AbRecord simulate(const Simulated& machine);

}  // namespace noisemark::reports::test
