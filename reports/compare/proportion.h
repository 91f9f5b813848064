#pragma once

#include <cstdint>

#include "reports/result.h"

namespace noisemark::reports {

/// Interval of a proportion of which `hits` in `trials` were seen (Clopper and Pearson 1934):
/// covers at least `confidence`, whatever the proportion. Throws std::logic_error unless 0 <= hits
/// <= trials, trials >= 1 and confidence in (0, 1).
[[nodiscard]] Interval clopper_pearson(int64_t hits, int64_t trials, double confidence = 0.95);

}  // namespace noisemark::reports
