#pragma once

#include <string>

#include "reports/baseline/baseline_cell.h"

namespace noisemark::reports {

/// A baseline for a reviewer: its runs with commit, date and seed, the gated figures and how far
/// runs differ, what to know, and what so many runs can judge. A pure function, byte for byte.
[[nodiscard]] std::string baseline_markdown(const BaselineCell& cell);

}  // namespace noisemark::reports
