#pragma once

#include <cstdint>

#include "tests/memopt/programs/program.h"

namespace noisemark::memopt::programs {

/// Programs of earlier seeds have no later_operators() and none of what was thought of with those,
/// so that a seed that was looked at stays what it was.
inline constexpr uint64_t kFirstLaterSeed = 20'000;

/// Those before this one have no formed_operators(), and no Loop::thread_state.
inline constexpr uint64_t kFirstFormedSeed = 100'000;

/// Those before this one have no Loop::updates_inside and none of what stands below it there.
inline constexpr uint64_t kFirstAskingSeed = 1'000'000;

/// Those before this one have no varying_operators(), and no Loop::varies.
inline constexpr uint64_t kFirstVaryingSeed = 1'100'000;

/// A valid program. The same seed gives the same program on every machine.
[[nodiscard]] Program generate(uint64_t seed);

}  // namespace noisemark::memopt::programs
