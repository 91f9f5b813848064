#pragma once

#include <cstdint>

#include "tests/memopt/programs/program.h"

namespace noisemark::memopt::programs {

/// A valid program. The same seed gives the same program on every machine.
[[nodiscard]] Program generate(uint64_t seed);

}  // namespace noisemark::memopt::programs
