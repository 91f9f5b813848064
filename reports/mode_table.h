#pragma once

#include <string>
#include <vector>

#include "reports/table.h"

namespace noisemark::reports {

/// Memory modes side by side, one row for each result that ran under one, and the rows of mode
/// "none" of the same benchmarks, in three tables that fit a page: peak and saved bytes, the most
/// that is saved, time and proof; and a fourth where runs looked for the largest batch that fits a
/// given memory. Each figure that a plan predicts stands beside what was measured.
/// Markdown, empty where no result ran under a mode.
[[nodiscard]] std::string mode_table(const std::vector<NamedResult>& results);

}  // namespace noisemark::reports
