#pragma once

#include "reports/compare/comparison.h"
#include "reports/compare/sides.h"
#include "reports/compare/stochastic_tier.h"

namespace noisemark::reports {

/// Judges `candidate` against `base`: identity first, and what is not the same work on the same
/// machine is not comparable, never a pass; then figures without noise, exactly; then figures with
/// noise, statistically. The worst finding decides. Every cell or run on one side only is listed,
/// and so is every run that left no result; sides of which NEW is the older by every clock are not
/// comparable. A pure function: the same results in any order of their runs give the same
/// comparison. Throws Error (bad input) when a run is on both sides, or a side is empty.
[[nodiscard]] Comparison compare(const Side& base, const Side& candidate,
                                 const StochasticOptions& options = {});

}  // namespace noisemark::reports
