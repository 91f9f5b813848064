#pragma once

#include <string>
#include <vector>

#include "reports/compare/sides.h"
#include "reports/quality/distances.h"

namespace noisemark::reports {

/// What is judged: runs that have their distances as metrics, and where those come from.
struct QualitySide {
  Side side;
  std::vector<RunDistance> distances;
  std::vector<std::string> sheets;  ///< of samples, below the one folder that was given
};

/// Of folders of results. Of the folder of a suite that judges some benchmarks only their runs;
/// what it leaves out is among left_out. Throws Error (bad input) as read_runs() and
/// read_distances() do.
[[nodiscard]] QualitySide read_quality_side(const std::vector<std::string>& paths);

}  // namespace noisemark::reports
