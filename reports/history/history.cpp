#include "reports/history/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <tuple>

#include "reports/base/error.h"
#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/base/sha256.h"
#include "reports/base/statistics.h"
#include "reports/compare/compare.h"
#include "reports/compare/sides.h"
#include "reports/result/gate.h"
#include "reports/result/metrics.h"

namespace noisemark::reports {
namespace {

using Runs = std::vector<const NamedResult*>;
using GroupKey = std::pair<std::string, Strings>;  ///< cell, identity

HistoryRun run_of(const NamedResult& named) {
  const Result& result = named.result;
  const Provenance& from = result.provenance;
  return {named.name, result.run_id, result.created_utc, from.shown_commit(), result.seeds.base};
}

std::string digest_of(const Strings& identity) {
  std::string text;
  for (const auto& [field, value] : identity) text += fmt::format("{}={}\n", field, value);
  return shown_digits(sha256_of(text));
}

/// Medians of the levels around each change.
void measure_levels(HistorySeries& series) {
  std::vector<size_t> bounds = {0};
  for (const HistoryChange& change : series.changes) bounds.push_back(change.at);
  bounds.push_back(series.values.size());
  const std::span<const double> values = series.values;
  const auto level = [&](size_t part) {
    return median(values.subspan(bounds[part], bounds[part + 1] - bounds[part]));
  };
  for (size_t i = 0; i < series.changes.size(); ++i) {
    series.changes[i].before = level(i);
    series.changes[i].after = level(i + 1);
  }
}

void find_changes(HistorySeries& series, const ChangePointOptions& options) {
  if (series.exact) {
    for (size_t i = 1; i < series.values.size(); ++i) {
      if (series.values[i] != series.values[i - 1]) series.changes.push_back({i, {}, 0, 0});
    }
  } else {
    series.too_few = series.values.size() < fewest_values(options);
    for (const ChangePoint& found : change_points(series.values, options)) {
      series.changes.push_back({found.at, found.p, 0, 0});
    }
  }
  measure_levels(series);
}

/// Returns the metrics in the order in which runs name them.
std::vector<std::string> metrics_of(const Runs& runs, const std::vector<std::string>& wanted) {
  std::vector<std::string> names;
  for (const NamedResult* run : runs) {
    for (const Metric& metric : run->result.metrics) {
      const bool followed =
          wanted.empty()
              ? metric.direction != Direction::kNeutral || exact_metrics().contains(metric.name)
              : std::find(wanted.begin(), wanted.end(), metric.name) != wanted.end();
      const bool known = std::find(names.begin(), names.end(), metric.name) != names.end();
      if (followed && !known && metric.value) names.push_back(metric.name);
    }
  }
  return names;
}

HistorySeries series_of(const std::string& name, const Runs& runs,
                        const ChangePointOptions& options) {
  HistorySeries series;
  series.metric = name;
  series.exact = exact_metrics().contains(name);
  for (size_t i = 0; i < runs.size(); ++i) {
    const Metric* metric = find_metric(runs[i]->result, name);
    if (metric == nullptr || !metric->value) continue;
    if (series.values.empty()) {
      series.unit = metric->unit;
      series.direction = metric->direction;
    } else if (series.unit != metric->unit) {
      throw bad_input(runs[i]->name, name, "in " + metric->unit,
                      series.unit + ", as in the runs before");
    }
    series.runs.push_back(i);
    series.values.push_back(*metric->value);
  }
  find_changes(series, options);
  return series;
}

HistoryGroup group_of(const GroupKey& key, Runs runs, const std::vector<std::string>& metrics,
                      const ChangePointOptions& options) {
  std::sort(runs.begin(), runs.end(), [](const NamedResult* a, const NamedResult* b) {
    return std::tie(a->result.created_utc, a->result.run_id) <
           std::tie(b->result.created_utc, b->result.run_id);
  });
  HistoryGroup group{key.first, digest_of(key.second), {}, {}, {}};
  for (const NamedResult* run : runs) group.runs.push_back(run_of(*run));
  for (const std::string& name : metrics_of(runs, metrics)) {
    group.series.push_back(series_of(name, runs, options));
  }
  return group;
}

/// Returns each field in which an identity of a cell differs from the first one.
std::set<std::string> distinguishing(const std::map<GroupKey, Runs>& groups,
                                     const std::string& cell) {
  const Strings* first = nullptr;
  std::set<std::string> fields;
  for (const auto& [key, runs] : groups) {
    if (key.first != cell) continue;
    if (first == nullptr) first = &key.second;
    for (const FieldDifference& found : differing_fields(*first, key.second)) {
      fields.insert(found.field);
    }
  }
  return fields;
}

void check_metrics(const std::vector<NamedResult>& results,
                   const std::vector<std::string>& metrics) {
  std::set<std::string> known;
  for (const NamedResult& run : results) {
    for (const Metric& metric : run.result.metrics) known.insert(metric.name);
  }
  for (const std::string& name : metrics) {
    if (known.contains(name)) continue;
    throw bad_input("--metric", "", name,
                    accepted_names(name, std::vector<std::string>(known.begin(), known.end())));
  }
}

}  // namespace

History history_of(const std::vector<NamedResult>& results, const std::vector<std::string>& metrics,
                   const ChangePointOptions& options) {
  check_metrics(results, metrics);
  History history;
  history.options = options;
  std::map<GroupKey, Runs> groups;
  for (const NamedResult& run : results) {
    if (is_finished(run.result)) {
      groups[{cell_name(run.result.identity), identity_fields(run.result)}].push_back(&run);
    } else {
      history.left_out.push_back(
          fmt::format("{}: did not come to its end ({})", run.name, run.result.exit.status));
    }
  }
  std::sort(history.left_out.begin(), history.left_out.end());
  for (const auto& [key, runs] : groups) {
    HistoryGroup group = group_of(key, runs, metrics, options);
    for (const std::string& field : distinguishing(groups, key.first)) {
      group.differs[field] = text_of(key.second, field);
    }
    history.groups.push_back(std::move(group));
  }
  std::stable_sort(history.groups.begin(), history.groups.end(),
                   [](const HistoryGroup& a, const HistoryGroup& b) {
                     return std::tie(a.cell, a.runs.front().created_utc, a.identity) <
                            std::tie(b.cell, b.runs.front().created_utc, b.identity);
                   });
  return history;
}

namespace {

std::string times(size_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

bool is_worse(const HistorySeries& series, const HistoryChange& change) {
  if (series.direction == Direction::kNeutral || change.after == change.before) return false;
  return (change.after > change.before) != (series.direction == Direction::kHigher);
}

size_t count_changes(const History& history) {
  size_t count = 0;
  for (const HistoryGroup& group : history.groups) {
    for (const HistorySeries& series : group.series) count += series.changes.size();
  }
  return count;
}

size_t count_worse(const History& history) {
  size_t count = 0;
  for (const HistoryGroup& group : history.groups) {
    for (const HistorySeries& series : group.series) {
      for (const HistoryChange& change : series.changes) count += is_worse(series, change) ? 1 : 0;
    }
  }
  return count;
}

/// The figures with noise of which too few runs have a value.
std::vector<std::string> not_searched(const HistoryGroup& group) {
  std::vector<std::string> names;
  for (const HistorySeries& series : group.series) {
    if (series.too_few) names.push_back(code(series.metric));
  }
  return names;
}

std::string way(const HistorySeries& series, const HistoryChange& change) {
  if (series.direction == Direction::kNeutral || change.after == change.before) return "changed";
  return is_worse(series, change) ? "**worse**" : "better";
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
                       {"direction"}});
  for (const HistorySeries& series : group.series) {
    for (const HistoryChange& change : series.changes) {
      const size_t run = series.runs[change.at];
      const HistoryRun& first = group.runs[run];
      table.add_row({series.metric, std::to_string(run + 1), first.created_utc, first.commit,
                     group.runs[series.runs[change.at - 1]].commit,
                     format_quantity(change.before, series.unit),
                     format_quantity(change.after, series.unit),
                     change.before != 0 ? fmt::format("{:.4f}", change.after / change.before) : "",
                     change.p ? format_p_value(change.p) : "exact", way(series, change)});
    }
  }
  if (!table.empty()) return fmt::format("\n{}", table.text());
  const size_t left_out = not_searched(group).size();
  return left_out == 0                     ? "\nNo change was found.\n"
         : left_out == group.series.size() ? "\nNo figure was searched.\n"
                                           : "\nNo change was found in the figures that were "
                                             "searched.\n";
}

/// The metrics that the table of runs shows.
std::vector<const HistorySeries*> shown(const HistoryGroup& group) {
  std::vector<const HistorySeries*> all;
  for (const HistorySeries& series : group.series) {
    if (is_followed(series.metric) || !series.changes.empty()) all.push_back(&series);
  }
  return all;
}

/// Bold where a level begins.
std::string value_cell(const HistorySeries& series, size_t run) {
  const auto at = std::find(series.runs.begin(), series.runs.end(), run);
  if (at == series.runs.end()) return std::string(kMissing);
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
  const std::vector<std::string> names = not_searched(group);
  if (names.empty()) return "";
  return fmt::format(
      "\nNot searched: {}. In a figure with noise a change can be found once at least {} runs have "
      "it.\n",
      fmt::join(names, ", "), fewest_values(options));
}

/// "history_1_images_per_s": the name of the plot of a series, by the number of its group.
std::string history_plot_name(size_t group, const std::string& metric) {
  std::string name = fmt::format("history_{}_{}", group, metric);
  for (char& c : name) {
    const bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!kept) c = '_';
  }
  return name;
}

std::string section(size_t number, const HistoryGroup& group, const History& history,
                    const Plots& plots) {
  std::string text = fmt::format("\n## {}\n\n{}, identity {}.\n", plain(group.cell),
                                 times(group.runs.size(), "run", "runs"), group.identity);
  for (const auto& [field, value] : group.differs) {
    text += fmt::format("- {}: {}\n", code(field), value.empty() ? "none" : plain(value));
  }
  text += changes(group) + too_short(group, history.options);
  for (const HistorySeries& series : group.series) {
    text += plot_line(plots, history_plot_name(number, series.metric));
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
      "\n## How changes are found\n\nEvery difference of a figure without noise from the run "
      "before it is a change. A figure with noise is searched by E-divisive means (Matteson and "
      "James 2014), with {} permutations, seed {}, p at most {}, and at least {} runs between "
      "changes. {:.0f} of 1,000 figures in which nothing had changed showed a change; {} searched "
      "here, so {:.2g} changes are to be expected by chance. Runs that were made under other loads "
      "differ too: a change is a reason to look, not a verdict. `noisemark compare` judges.\n",
      options.permutations, options.seed, format_number(options.level), options.shortest,
      1000 * kFalseAlarms, times(noisy, "figure with noise was", "figures with noise were"),
      kFalseAlarms * static_cast<double>(noisy));
}

}  // namespace

std::string history_markdown(const History& history, const Plots& plots) {
  size_t count = 0;
  size_t left_out = 0;
  for (const HistoryGroup& group : history.groups) {
    count += group.runs.size();
    left_out += not_searched(group).size();
  }
  const size_t worse = count_worse(history);
  std::string text = fmt::format(
      "# History: {}, {}, {}{}{}\n", times(count, "run", "runs"),
      times(history.groups.size(), "identity", "identities"),
      times(count_changes(history), "change", "changes"),
      worse > 0 ? fmt::format(" ({} worse)", worse) : "",
      left_out > 0 ? ", " + times(left_out, "figure", "figures") + " not searched" : "");
  text += left_out_line(plots);
  text += markdown_list("Left out, with the reason", history.left_out);
  for (size_t i = 0; i < history.groups.size(); ++i) {
    text += section(i + 1, history.groups[i], history, plots);
  }
  return finished_page(text + method(history) + std::string(kGlossaryLine));
}

namespace {

bool is_plotted(const HistorySeries& series) {
  return series.values.size() > 1 && (is_followed(series.metric) || !series.changes.empty());
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
    const double level = median(std::span(series.values).subspan(begin, end - begin));
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
                             commit.empty() ? "unknown" : one_line(commit));
  }
  plot.data += fmt::format("\n\n{}", levels_text(series));
  plot.script += fmt::format(
      "set xlabel 'run'\nset ylabel {}\nset xrange [0.5:{}.5]\n{}",
      gnuplot_text(series.metric +
                   (series.unit.empty() || series.unit == "1" ? "" : " (" + series.unit + ")")),
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
        ", \\\n     NaN with lines linewidth 1.5 dashtype 2 linecolor rgb '#D55E00' title 'change'";
  }
  plot.script += '\n';
  return plot;
}

}  // namespace

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
