#pragma once

#include <string>
#include <vector>

#include "reports/export/figures.h"

namespace noisemark::reports {

/// Bencher Metric Format: a cell is a benchmark, a metric is a measure with `value` and, where
/// there is an interval, `lower_value` and `upper_value`. Units and directions have no place in it;
/// they belong to the measure, which Bencher keeps.
[[nodiscard]] std::string bencher_json(const std::vector<Figure>& figures);

}  // namespace noisemark::reports
