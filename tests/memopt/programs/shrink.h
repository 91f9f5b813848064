#pragma once

#include <functional>

#include "tests/memopt/programs/program.h"

namespace noisemark::memopt::programs {

/// Returns whether a program still fails in the way that is looked for.
using StillFails = std::function<bool(const Program&)>;

/// A program that still fails and from which nothing can be taken without that it stops (delta
/// debugging, Zeller and Hildebrandt 2002): calls, happenings, habits of the loop, parts of the
/// mode, steps, sizes. `tries`: the most programs that are asked about.
[[nodiscard]] Program shrink(const Program& failing, const StillFails& still_fails,
                             int tries = 400);

}  // namespace noisemark::memopt::programs
