#include "reports/pareto_plot.h"

#include <fmt/format.h>

#include <algorithm>

namespace noisemark::reports {
namespace {

constexpr double kMebi = 1024.0 * 1024.0;
constexpr double kMilli = 1e3;

double mib(int64_t bytes) {
  return static_cast<double>(bytes) / kMebi;
}

}  // namespace

PlotSource pareto_plot(const std::vector<ParetoPoint>& points, int64_t budget_bytes,
                       const std::string& bytes_label) {
  PlotSource plot{"pareto", "Bytes against time", "# MiB added_ms\n", plot_head("pareto")};
  std::string chosen;
  int64_t most_bytes = 0;
  for (const ParetoPoint& point : points) {
    const std::string row =
        fmt::format("{:.4f} {:.6g}\n", mib(point.bytes), kMilli * point.added_s);
    plot.data += row;
    if (point.chosen) chosen += row;
    most_bytes = std::max(most_bytes, point.bytes);
  }
  plot.data += "\n\n# chosen\n" + chosen;
  plot.script += fmt::format(
      "set xlabel '{} (MiB)'\nset ylabel 'added to a step (ms)'\n"
      "set xrange [0:{:.6g}]\nset yrange [0:*]\n",
      bytes_label, 1.05 * mib(most_bytes));
  if (budget_bytes <= most_bytes) {
    plot.script += fmt::format(
        "set arrow 1 from first {0:.4f}, graph 0 to first {0:.4f}, graph 1 nohead linewidth 1.5 "
        "dashtype 2 linecolor rgb '#D55E00'\n",
        mib(budget_bytes));
  }
  plot.script +=
      "plot 'pareto.dat' index 0 using 1:2 with linespoints linewidth 1 pointtype 7 pointsize 0.5 "
      "linecolor rgb '#0072B2' title 'plans'";
  if (!chosen.empty()) {
    plot.script +=
        ", \\\n     'pareto.dat' index 1 using 1:2 with points pointtype 6 pointsize 1.2 "
        "linewidth 2 linecolor rgb '#E69F00' title 'the budget gets'";
  }
  if (budget_bytes <= most_bytes) {
    plot.script +=
        ", \\\n     NaN with lines linewidth 1.5 dashtype 2 linecolor rgb '#D55E00' title "
        "'budget'";
  }
  plot.script += '\n';
  return plot;
}

}  // namespace noisemark::reports
