#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/compare/comparison.h"
#include "reports/result.h"
#include "reports/table.h"

/// The figures of results, one by one, for programs that follow figures over time.
namespace noisemark::reports {

struct Figure {
  std::string cell;  ///< as cell_name() says it; what was changed by --set is named too
  std::string metric;
  std::string unit;
  Direction direction = Direction::kNeutral;
  double value = 0;
  std::optional<Interval> interval;  ///< see figures_of()
  std::string note;                  ///< for people: runs, commits or the verdict
};

/// Every metric that has a value, by cell and then in the order in which runs name them. Of several
/// runs of a cell the value is their median, and the interval reaches from the least to the
/// greatest; of a single run it is that run's own 95 % interval. Throws Error (bad input) when runs
/// of a cell give a metric in two units or with two directions.
[[nodiscard]] std::vector<Figure> figures_of(const std::vector<NamedResult>& results);

/// The figures of NEW, and of each figure with noise its ratio to BASE (METRIC_ratio) with the 95 %
/// interval. Bytes by owner are left out: comparison.json has them. A figure that NEW has not got
/// cannot be written as a number, so each cell counts them: `figures_lost` (lower is better; its
/// note names them) are those of BASE that NEW no longer measures, `figures_measured` (higher is
/// better) those of BASE that it does. Of a cell that NEW lacks nothing is measured.
[[nodiscard]] std::vector<Figure> figures_of(const Comparison& comparison);

}  // namespace noisemark::reports
