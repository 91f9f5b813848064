#pragma once

#include <string>

#include "reports/compare/comparison.h"

namespace noisemark::reports {

/// What to do after a comparison, one sentence per line: how many more runs decide it, what to
/// mend, or, where it passes and NEW beats a kept baseline beyond the margin, the command that
/// makes NEW the baseline.
[[nodiscard]] std::string next_step(const Comparison& comparison);

}  // namespace noisemark::reports
