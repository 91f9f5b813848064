#pragma once

#include <string>
#include <vector>

#include "reports/export/figures.h"

namespace noisemark::reports {

/// What github-action-benchmark reads with `tool: customSmallerIsBetter` (kLower) or
/// `customBiggerIsBetter` (kHigher): an array of name, unit, value and, where there is one, range;
/// `extra` is for its tooltips. The tool has one direction per file, so figures of the other one
/// are left out, and those of none are in neither. Throws std::logic_error for kNeutral.
[[nodiscard]] std::string github_benchmark_json(const std::vector<Figure>& figures,
                                                Direction direction);

}  // namespace noisemark::reports
