#pragma once

#include <string>

#include "reports/compare/comparison.h"
#include "reports/compare/sides.h"
#include "reports/compare/tiers.h"
#include "reports/result/result.h"

namespace noisemark::reports {

/// Judges `candidate` against `base`: identity first, and what is not the same work on the same
/// machine is not comparable, never a pass; then figures without noise, exactly; then figures with
/// noise, statistically. The worst finding decides. Every cell or run on one side only is listed,
/// and so is every run that left no result; sides of which NEW is the older by every clock are not
/// comparable. A pure function: the same results in any order of their runs give the same
/// comparison. Throws Error (bad input) when a run is on both sides, or a side is empty.
[[nodiscard]] Comparison compare(const Side& base, const Side& candidate,
                                 const StochasticOptions& options = {});

/// One sentence on what changed from BASE's runs of the same cell to `now`: speed, memory and loss
/// beside the medians of BASE, and whether both did the same work on the same machine. It proves
/// nothing; `noisemark compare` does. A pure function.
[[nodiscard]] std::string since_words(const Side& base, const NamedResult& now);

}  // namespace noisemark::reports
