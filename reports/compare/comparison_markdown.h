#pragma once

#include <string>

#include "reports/compare/comparison.h"

namespace noisemark::reports {

/// A comparison for people: the verdict and its reasons, whether the sides are comparable, the
/// gates, what has no noise, the noise, what to do next; everything else folded away. A pure
/// function, byte for byte.
[[nodiscard]] std::string comparison_markdown(const Comparison& comparison);

/// What to do next, one sentence per line.
[[nodiscard]] std::string next_step(const Comparison& comparison);

}  // namespace noisemark::reports
