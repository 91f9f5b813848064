#pragma once

#include <string>
#include <vector>

#include "reports/table.h"

namespace noisemark::reports {

/// Memory modes side by side, one row for each result that ran under one, and the rows of mode
/// "none" of the same benchmarks: bytes measured and predicted, factors, rate, overhead,
/// certificate or gradient error, fallbacks. Markdown, empty where no result ran under a mode.
[[nodiscard]] std::string mode_table(const std::vector<NamedResult>& results);

}  // namespace noisemark::reports
