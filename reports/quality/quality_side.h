#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reports/compare/sides.h"
#include "reports/quality/distances.h"

namespace noisemark::reports {

/// What is judged: runs that have their distances as metrics, and where those come from.
struct QualitySide {
  Side side;
  std::vector<RunDistance> distances;
  std::vector<std::string> sheets;  ///< of samples, as a page links to them
  /// Runs of benchmarks that their suite does not train over seeds: of their modes it is judged
  /// what is known of every step, tiers 0 and 1.
  Side by_steps = {};
};

/// Of folders of results. Of the folder of a suite that judges some benchmarks only their runs: the
/// others are judged by their steps, and named among left_out. Throws Error (bad input) as
/// read_runs() and read_distances() do. `page`: the folder that the links lead from; empty: the one
/// that was given, or the current folder where several were.
[[nodiscard]] QualitySide read_quality_side(const std::vector<std::string>& paths,
                                            const std::filesystem::path& page = {});

}  // namespace noisemark::reports
