#pragma once

#include <string>

#include "reports/compare/sides.h"
#include "reports/result/result.h"

namespace noisemark::reports {

/// One sentence on what changed from BASE's runs of the same cell to `now`: speed, memory and loss
/// beside the medians of BASE, and whether both did the same work on the same machine. It proves
/// nothing; `noisemark compare` does. A pure function.
[[nodiscard]] std::string since_words(const Side& base, const NamedResult& now);

}  // namespace noisemark::reports
