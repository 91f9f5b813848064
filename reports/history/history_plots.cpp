#include <fmt/format.h>

#include <algorithm>

#include "reports/compare/stochastic_tier.h"
#include "reports/history/history_markdown.h"
#include "reports/statistics.h"

namespace noisemark::reports {
namespace {

bool is_plotted(const HistorySeries& series) {
  const auto& gates = gated_metrics();
  const bool gated = std::any_of(gates.begin(), gates.end(), [&](const GatedMetric& gate) {
    return gate.name == series.metric;
  });
  return series.values.size() > 1 &&
         (gated || series.metric == "peak_bytes" || !series.changes.empty());
}

/// Begin and end of each level, by position in the series.
std::vector<std::pair<size_t, size_t>> levels_of(const HistorySeries& series) {
  std::vector<std::pair<size_t, size_t>> levels;
  size_t begin = 0;
  for (const HistoryChange& change : series.changes) {
    levels.emplace_back(begin, change.at);
    begin = change.at;
  }
  levels.emplace_back(begin, series.values.size());
  return levels;
}

std::string levels_text(const HistorySeries& series) {
  std::string text = "# level: run value\n";
  for (const auto& [begin, end] : levels_of(series)) {
    const std::vector<double> part(series.values.begin() + static_cast<std::ptrdiff_t>(begin),
                                   series.values.begin() + static_cast<std::ptrdiff_t>(end));
    const double level = median(part);
    text += fmt::format("{} {:.9g}\n{} {:.9g}\n\n", series.runs[begin] + 1, level,
                        series.runs[end - 1] + 1, level);
  }
  return text;
}

/// Room around the values, so that a change of a thousandth can be seen.
std::string range_of(const HistorySeries& series) {
  constexpr double kMargin = 0.1;
  const auto [low, high] = std::minmax_element(series.values.begin(), series.values.end());
  const double room = *high > *low ? kMargin * (*high - *low) : kMargin * std::max(1.0, *high);
  return fmt::format("set yrange [{:.9g}:{:.9g}]\n", *low - room, *high + room);
}

PlotSource plot_of(size_t number, const HistoryGroup& group, const HistorySeries& series) {
  const std::string name = history_plot_name(number, series.metric);
  PlotSource plot{name, series.metric, "# run value commit\n", plot_head(name)};
  for (size_t i = 0; i < series.values.size(); ++i) {
    const std::string& commit = group.runs[series.runs[i]].commit;
    plot.data += fmt::format("{} {:.9g} {}\n", series.runs[i] + 1, series.values[i],
                             commit.empty() ? "unknown" : commit);
  }
  plot.data += fmt::format("\n\n{}", levels_text(series));
  plot.script +=
      fmt::format("set xlabel 'run'\nset ylabel '{}{}'\nset xrange [0.5:{}.5]\n{}", series.metric,
                  series.unit.empty() || series.unit == "1" ? "" : " (" + series.unit + ")",
                  group.runs.size(), range_of(series));
  for (size_t i = 0; i < series.changes.size(); ++i) {
    const auto first = static_cast<double>(series.runs[series.changes[i].at]) + 0.5;
    plot.script += fmt::format(
        "set arrow {0} from first {1:.1f}, graph 0 to first {1:.1f}, graph 1 nohead linewidth 1.5 "
        "dashtype 2 linecolor rgb '#D55E00'\n",
        i + 1, first);
  }
  plot.script += fmt::format(
      "plot '{0}.dat' index 0 using 1:2 with points pointtype 7 pointsize 0.6 linecolor rgb "
      "'#0072B2' title 'run', \\\n     '{0}.dat' index 1 using 1:2 with lines linewidth 2 "
      "linecolor rgb '#E69F00' title 'median'",
      name);
  if (!series.changes.empty()) {
    plot.script +=
        ", \\\n     NaN with lines linewidth 1.5 dashtype 2 linecolor rgb '#D55E00' title "
        "'change'";
  }
  plot.script += '\n';
  return plot;
}

}  // namespace

std::string history_plot_name(size_t group, const std::string& metric) {
  std::string name = fmt::format("history_{}_{}", group, metric);
  for (char& c : name) {
    const bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!kept) c = '_';
  }
  return name;
}

std::vector<PlotSource> history_plots(const History& history) {
  std::vector<PlotSource> plots;
  for (size_t i = 0; i < history.groups.size(); ++i) {
    for (const HistorySeries& series : history.groups[i].series) {
      if (is_plotted(series)) plots.push_back(plot_of(i + 1, history.groups[i], series));
    }
  }
  return plots;
}

}  // namespace noisemark::reports
