#pragma once

#include "reports/compare/sides.h"

/// Sides of a comparison as they would have been measured had something been otherwise.
namespace noisemark::suite {

/// Had every step, and every phase of it, taken longer by `frac` of its time. Metrics follow from
/// the changed samples; 0 changes nothing.
[[nodiscard]] reports::Side slowed(reports::Side side, double frac);

}  // namespace noisemark::suite
