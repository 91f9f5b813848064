#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/history/change_points.h"
#include "reports/render/plot.h"
#include "reports/render/table.h"
#include "reports/result/result.h"

/// Many results of one kind over time, and where they changed. Descriptive: it gates nothing.
namespace noisemark::reports {

struct HistoryRun {
  std::string name;  ///< its folder
  std::string run_id;
  std::string created_utc;
  std::string commit;  ///< "+" behind: with changes
  uint64_t seed = 0;
};

/// A change of level between two runs of a group.
struct HistoryChange {
  size_t at = 0;            ///< the first value of the series after it
  std::optional<double> p;  ///< is empty for a figure without noise, which changed for certain
  double before = 0;        ///< median of the values since the change before
  double after = 0;         ///< median of the values until the next one
};

struct HistorySeries {
  std::string metric;
  std::string unit;
  Direction direction = Direction::kNeutral;
  bool exact = false;        ///< it has no noise: every difference is a change
  std::vector<size_t> runs;  ///< indices of the group's runs that have a value
  std::vector<double> values;
  std::vector<HistoryChange> changes;
  bool too_few = false;  ///< there are too few values for any change to be found
};

/// Runs of one cell whose identity agrees in everything but the seed.
struct HistoryGroup {
  std::string cell;
  std::string identity;          ///< 12 digits of the digest of all that must agree
  Strings differs;               ///< fields that tell it from other groups of the same cell
  std::vector<HistoryRun> runs;  ///< runs in the order of their creation
  std::vector<HistorySeries> series;
};

struct History {
  std::vector<HistoryGroup> groups;
  std::vector<std::string> left_out;  ///< runs and folders, and the reason of each
  ChangePointOptions options;
};

/// `metrics`: those to follow; none: all that have a direction, and the figures without noise. Runs
/// that failed a gate came to their end and count. A pure function; the order of `results` does not
/// matter. Throws Error (bad input) for a metric that no run has, and where runs of a group give
/// one in two units.
[[nodiscard]] History history_of(const std::vector<NamedResult>& results,
                                 const std::vector<std::string>& metrics = {},
                                 const ChangePointOptions& options = {});

/// A history for people: what changed and when, every run with its commit and date, how changes are
/// found and how often that is a false alarm. A pure function, byte for byte.
[[nodiscard]] std::string history_markdown(const History& history, const Plots& plots = {});

/// A plot of each gated metric, of each one with a change, and of peak_bytes: values in the order
/// of the runs, the median of each level. A pure function.
[[nodiscard]] std::vector<PlotSource> history_plots(const History& history);

}  // namespace noisemark::reports
