#include "reports/export/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "reports/compare/sides.h"
#include "reports/error.h"
#include "reports/statistics.h"

namespace noisemark::reports {
namespace {

constexpr size_t kCommitDigits = 12;

/// One metric of one cell, in all its runs.
struct Series {
  std::string cell;
  const Metric* first = nullptr;
  std::vector<double> values;
  std::set<std::string> commits;
};

/// What was changed by --set is other work, and never a point of the same curve.
std::string label_of(const Identity& id) {
  if (!id.custom) return cell_name(id);
  return fmt::format("{}, custom{}{}", cell_name(id), id.overrides.empty() ? "" : " ",
                     fmt::join(id.overrides, " "));
}

void add_run(const NamedResult& run, std::vector<Series>& all) {
  const Provenance& from = run.result.provenance;
  const std::string cell = label_of(run.result.identity);
  for (const Metric& metric : run.result.metrics) {
    if (!metric.value) continue;
    auto series = std::find_if(all.begin(), all.end(), [&](const Series& known) {
      return known.cell == cell && known.first->name == metric.name;
    });
    if (series == all.end()) series = all.insert(all.end(), Series{cell, &metric, {}, {}});
    if (metric.unit != series->first->unit || metric.direction != series->first->direction) {
      throw bad_input(run.name, metric.name, fmt::format("in {}", metric.unit),
                      fmt::format("{}, and the same direction, as in another run of {}",
                                  series->first->unit, cell));
    }
    series->values.push_back(*metric.value);
    series->commits.insert(from.git_commit.substr(0, kCommitDigits) + (from.git_dirty ? "+" : ""));
  }
}

Figure figure_of(const Series& series) {
  const auto [least, greatest] = std::minmax_element(series.values.begin(), series.values.end());
  Figure figure{series.cell,
                series.first->name,
                series.first->unit,
                series.first->direction,
                median(series.values),
                series.first->ci95,
                ""};
  const size_t runs = series.values.size();
  if (runs > 1) figure.interval = Interval{*least, *greatest};
  figure.note =
      fmt::format("{} {} of {}", runs, runs == 1 ? "run" : "runs", fmt::join(series.commits, " "));
  return figure;
}

/// Of a row of either kind.
template <class Row>
std::string note_of(const Row& row, Inconclusive inconclusive) {
  const std::string verdict = verdict_words(row.verdict, inconclusive);
  return row.words.empty() ? verdict : fmt::format("{}: {}", verdict, row.words);
}

void add_exact(const ExactRow& row, Inconclusive inconclusive, std::vector<Figure>& figures) {
  if (!row.candidate || row.by_owner()) return;
  const Direction direction = row.unit == "bytes" ? Direction::kLower : Direction::kNeutral;
  figures.push_back(
      {row.cell, row.metric, row.unit, direction, *row.candidate, {}, note_of(row, inconclusive)});
}

void add_stochastic(const StochasticRow& row, Inconclusive inconclusive,
                    std::vector<Figure>& figures) {
  const std::string note = row.judged() ? note_of(row, inconclusive) : std::string("not a gate");
  if (row.candidate) {
    figures.push_back({row.cell, row.metric, row.unit, row.direction, *row.candidate, {}, note});
  }
  if (row.ratio) {
    figures.push_back(
        {row.cell, row.metric + "_ratio", "1", row.direction, *row.ratio, row.ratio_ci95, note});
  }
}

/// What became of the figures that BASE has of a cell.
struct Kept {
  std::vector<std::string> lost;
  int64_t measured = 0;

  void add(const std::string& metric, bool base, bool candidate) {
    if (base && candidate) ++measured;
    if (base && !candidate) lost.push_back(metric);
  }
};

std::map<std::string, Kept> kept_figures(const Comparison& comparison) {
  std::map<std::string, Kept> cells;
  for (const ExactRow& row : comparison.exact) {
    const bool digest = !row.base_digest.empty() || !row.candidate_digest.empty();
    cells[row.cell].add(row.metric, digest ? !row.base_digest.empty() : row.base.has_value(),
                        digest ? !row.candidate_digest.empty() : row.candidate.has_value());
  }
  for (const StochasticRow& row : comparison.stochastic) {
    cells[row.cell].add(row.metric, row.base.has_value(), row.candidate.has_value());
  }
  for (const std::string& cell : comparison.only_base) cells[cell].lost = {"the whole cell"};
  return cells;
}

void add_kept(const std::string& cell, const Kept& kept, std::vector<Figure>& figures) {
  const std::string note =
      kept.lost.empty() ? std::string("none") : fmt::format("{}", fmt::join(kept.lost, ", "));
  figures.push_back({cell,
                     "figures_lost",
                     "figures",
                     Direction::kLower,
                     static_cast<double>(kept.lost.size()),
                     {},
                     "no longer measured: " + note});
  figures.push_back({cell,
                     "figures_measured",
                     "figures",
                     Direction::kHigher,
                     static_cast<double>(kept.measured),
                     {},
                     "of those that BASE has"});
}

}  // namespace

std::vector<Figure> figures_of(const std::vector<NamedResult>& results) {
  std::map<std::string, std::vector<Series>> by_cell;
  for (const NamedResult& run : results) add_run(run, by_cell[label_of(run.result.identity)]);
  std::vector<Figure> figures;
  for (const auto& [cell, all] : by_cell) {
    for (const Series& series : all) figures.push_back(figure_of(series));
  }
  return figures;
}

std::vector<Figure> figures_of(const Comparison& comparison) {
  std::vector<Figure> figures;
  for (const ExactRow& row : comparison.exact) add_exact(row, comparison.inconclusive, figures);
  for (const StochasticRow& row : comparison.stochastic) {
    add_stochastic(row, comparison.inconclusive, figures);
  }
  for (const auto& [cell, kept] : kept_figures(comparison)) add_kept(cell, kept, figures);
  return figures;
}

}  // namespace noisemark::reports
