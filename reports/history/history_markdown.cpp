#include "reports/history/history_markdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "reports/compare/stochastic_tier.h"
#include "reports/markdown.h"
#include "reports/quantity.h"

namespace noisemark::reports {
namespace {

std::string times(size_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

size_t count_changes(const History& history) {
  size_t count = 0;
  for (const HistoryGroup& group : history.groups) {
    for (const HistorySeries& series : group.series) count += series.changes.size();
  }
  return count;
}

std::string way(const HistorySeries& series, const HistoryChange& change) {
  if (series.direction == Direction::kNeutral || change.after == change.before) return "changed";
  const bool higher = change.after > change.before;
  return higher == (series.direction == Direction::kHigher) ? "better" : "**worse**";
}

std::string changes(const HistoryGroup& group) {
  MarkdownTable table({{"metric"},
                       {"from run", Align::kRight},
                       {"date"},
                       {"commit"},
                       {"commit before"},
                       {"before", Align::kRight},
                       {"after", Align::kRight},
                       {"ratio", Align::kRight},
                       {"p", Align::kRight},
                       {"way"}});
  for (const HistorySeries& series : group.series) {
    for (const HistoryChange& change : series.changes) {
      const size_t run = series.runs[change.at];
      const HistoryRun& first = group.runs[run];
      table.add_row({series.metric, std::to_string(run + 1), first.created_utc, first.commit,
                     group.runs[series.runs[change.at - 1]].commit,
                     format_quantity(change.before, series.unit),
                     format_quantity(change.after, series.unit),
                     change.before != 0 ? fmt::format("{:.4f}", change.after / change.before) : "",
                     change.p ? fmt::format("{:.2g}", *change.p) : "exact", way(series, change)});
    }
  }
  return table.empty() ? std::string("\nNo change was found.\n")
                       : fmt::format("\n{}", table.text());
}

/// The metrics that the table of runs shows.
std::vector<const HistorySeries*> shown(const HistoryGroup& group) {
  std::vector<const HistorySeries*> all;
  const auto is_shown = [](const HistorySeries& series) {
    if (series.metric == "peak_bytes" || !series.changes.empty()) return true;
    const auto& gates = gated_metrics();
    return std::any_of(gates.begin(), gates.end(),
                       [&](const GatedMetric& gate) { return gate.name == series.metric; });
  };
  for (const HistorySeries& series : group.series) {
    if (is_shown(series)) all.push_back(&series);
  }
  return all;
}

/// Bold where a level begins.
std::string value_cell(const HistorySeries& series, size_t run) {
  const auto at = std::find(series.runs.begin(), series.runs.end(), run);
  if (at == series.runs.end()) return "none";
  const auto i = static_cast<size_t>(at - series.runs.begin());
  const std::string text = format_quantity(series.values[i], series.unit);
  const bool begins = std::any_of(series.changes.begin(), series.changes.end(),
                                  [&](const HistoryChange& change) { return change.at == i; });
  return begins ? fmt::format("**{}**", text) : text;
}

std::string runs(const HistoryGroup& group) {
  const std::vector<const HistorySeries*> series = shown(group);
  std::vector<MarkdownTable::Column> columns = {
      {"run", Align::kRight}, {"date"}, {"commit"}, {"seed", Align::kRight}};
  for (const HistorySeries* one : series) columns.push_back({one->metric, Align::kRight});
  columns.push_back({"result"});
  MarkdownTable table(columns);
  for (size_t i = 0; i < group.runs.size(); ++i) {
    const HistoryRun& run = group.runs[i];
    std::vector<std::string> row = {std::to_string(i + 1), run.created_utc, run.commit,
                                    std::to_string(run.seed)};
    for (const HistorySeries* one : series) row.push_back(value_cell(*one, i));
    row.push_back(run.name);
    table.add_row(row);
  }
  return fmt::format("\n{}", table.text());
}

std::string too_short(const HistoryGroup& group, const ChangePointOptions& options) {
  const bool any = std::any_of(group.series.begin(), group.series.end(),
                               [](const HistorySeries& series) { return series.too_few; });
  if (!any) return "";
  return fmt::format(
      "\nFigures with noise: fewer than {} runs have a value of some, and no change can be found "
      "there.\n",
      fewest_values(options));
}

std::string section(size_t number, const HistoryGroup& group, const History& history,
                    const Plots& plots) {
  std::string text = fmt::format("\n## {}\n\n{}, identity {}.\n", group.cell,
                                 times(group.runs.size(), "run", "runs"), group.identity);
  for (const auto& [field, value] : group.differs) {
    text += fmt::format("- {}: {}\n", code(field), value.empty() ? "none" : value);
  }
  text += changes(group) + too_short(group, history.options);
  for (const HistorySeries& series : group.series) {
    const std::string file = fmt::format("plots/{}.svg", history_plot_name(number, series.metric));
    for (const PlotLink& link : plots.links) {
      if (link.file == file) text += fmt::format("\n![{}]({})\n", link.title, link.file);
    }
  }
  return text + runs(group);
}

std::string method(const History& history) {
  size_t noisy = 0;
  for (const HistoryGroup& group : history.groups) {
    for (const HistorySeries& series : group.series) {
      noisy += series.exact || series.too_few ? 0 : 1;
    }
  }
  const ChangePointOptions& options = history.options;
  return fmt::format(
      "\n## How changes are found\n\nFigures without noise: every difference from the run before. "
      "Others: E-divisive means (Matteson and James 2014), {} permutations, seed {}, p at most {}, "
      "at least {} runs between changes. Of series in which nothing changed at most {} show one; "
      "{} were searched here, so {:.2g} are to be expected by chance. Runs that were made under "
      "other loads differ too: a change is a reason to look, not a verdict. `noisemark compare` "
      "judges.\n",
      options.permutations, options.seed, format_number(options.level), options.shortest,
      format_percent(options.level), times(noisy, "series", "series"),
      options.level * static_cast<double>(noisy));
}

}  // namespace

std::string history_markdown(const History& history, const Plots& plots) {
  size_t count = 0;
  for (const HistoryGroup& group : history.groups) count += group.runs.size();
  std::string text = fmt::format("# History: {}, {}, {}\n", times(count, "run", "runs"),
                                 times(history.groups.size(), "identity", "identities"),
                                 times(count_changes(history), "change", "changes"));
  if (!plots.left_out.empty()) text += fmt::format("\nPlots were left out: {}.\n", plots.left_out);
  if (!history.left_out.empty()) {
    text += "\nRuns that did not come to their end, left out:\n\n";
    for (const std::string& run : history.left_out) text += fmt::format("- {}\n", run);
  }
  for (size_t i = 0; i < history.groups.size(); ++i) {
    text += section(i + 1, history.groups[i], history, plots);
  }
  return text + method(history);
}

}  // namespace noisemark::reports
