#pragma once

#include <string>
#include <vector>

#include "reports/history/history.h"
#include "reports/plot.h"

namespace noisemark::reports {

/// A history for people: what changed and when, every run with its commit and date, how changes are
/// found and how often that is a false alarm. A pure function, byte for byte.
[[nodiscard]] std::string history_markdown(const History& history, const Plots& plots = {});

/// A plot of each gated metric, of each one with a change, and of peak_bytes: values in the order
/// of the runs, the median of each level. A pure function.
[[nodiscard]] std::vector<PlotSource> history_plots(const History& history);

/// "history_1_images_per_s": the name of the plot of a series, by the number of its group.
[[nodiscard]] std::string history_plot_name(size_t group, const std::string& metric);

}  // namespace noisemark::reports
