#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/plot.h"

namespace noisemark::reports {

struct ParetoPoint {
  int64_t bytes = 0;
  double added_s = 0;  ///< to a step
  bool chosen = false;
};

/// Time against bytes of the plans that a budget can choose from. `bytes_label`: what the bytes
/// are. A pure function.
[[nodiscard]] PlotSource pareto_plot(const std::vector<ParetoPoint>& points, int64_t budget_bytes,
                                     const std::string& bytes_label);

}  // namespace noisemark::reports
