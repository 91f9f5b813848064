#include "reports/export/exporters.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <stdexcept>
#include <string_view>

#include "reports/base/error.h"
#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/base/statistics.h"
#include "reports/compare/comparison.h"
#include "reports/compare/comparison_fields.h"
#include "reports/compare/sides.h"
#include "reports/export/junit.h"
#include "reports/render/report_sections.h"
#include "reports/render/table.h"

namespace noisemark::reports {

using OrderedJson = nlohmann::ordered_json;

std::string bencher_json(const std::vector<Figure>& figures) {
  OrderedJson benchmarks = OrderedJson::object();
  for (const Figure& figure : figures) {
    OrderedJson metric = {{"value", figure.value}};
    if (figure.interval) {
      metric["lower_value"] = figure.interval->low;
      metric["upper_value"] = figure.interval->high;
    }
    benchmarks[figure.cell][figure.metric] = std::move(metric);
  }
  return benchmarks.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string github_benchmark_json(const std::vector<Figure>& figures, Direction direction) {
  if (direction == Direction::kNeutral) {
    throw std::logic_error("github-action-benchmark needs to know which way is good");
  }
  OrderedJson entries = OrderedJson::array();
  for (const Figure& figure : figures) {
    if (figure.direction != direction) continue;
    OrderedJson entry = {{"name", fmt::format("{}: {}", figure.cell, figure.metric)},
                         {"unit", figure.unit},
                         {"value", figure.value}};
    if (figure.interval) {
      entry["range"] = fmt::format("{} to {}", format_number(figure.interval->low),
                                   format_number(figure.interval->high));
    }
    entry["extra"] = figure.note;
    entries.push_back(std::move(entry));
  }
  return entries.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

namespace {

std::string ctest_name(std::string name) {
  constexpr std::string_view kKept =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _.,:@+=-";
  for (char& c : name) {
    if (kKept.find(c) == std::string_view::npos) c = '_';
  }
  return name;
}

}  // namespace

std::string ctest_lines(const std::vector<Figure>& figures) {
  std::string text;
  for (const Figure& figure : figures) {
    text +=
        fmt::format("<CTestMeasurement type=\"numeric/double\" name=\"{}\">{}</CTestMeasurement>\n",
                    ctest_name(figure.cell + ": " + figure.metric), figure.value);
  }
  return text;
}

namespace {

std::string smaller_is_better(const std::vector<Figure>& figures) {
  return github_benchmark_json(figures, Direction::kLower);
}

std::string bigger_is_better(const std::vector<Figure>& figures) {
  return github_benchmark_json(figures, Direction::kHigher);
}

template <auto kWrite>
std::string of_results(const CollectedResults& results) {
  return kWrite(figures_of(results.results));
}

template <auto kWrite>
std::string of_comparison(const Comparison& comparison) {
  return kWrite(figures_of(comparison));
}

/// A test may say more than its measurements.
std::string ctest_of(const Comparison& comparison) {
  const std::string words = let_pass(comparison);
  return ctest_lines(figures_of(comparison)) + words + (words.empty() ? "" : "\n");
}

constexpr std::string_view kResultsMark = "<!-- noisemark results -->\n";
constexpr std::string_view kCell = ", baseline ";  ///< stands in the name of every figure
constexpr std::string_view kKept = ": figures_";   ///< stands behind it where it is of a comparison
constexpr std::string_view kWhole = "<testsuite name=\"comparison\" package=\"noisemark compare ";

constexpr ExportFormat kFormats[] = {
    {"md",
     "a comment for a pull request",
     [](const CollectedResults& results) { return summary_markdown(results); },
     [](const Comparison& comparison) { return comparison_markdown(comparison); },
     {"# ", kResultsMark},
     {"# ", kComparisonMark}},
    {"json",
     "the whole comparison",
     nullptr,
     comparison_json,
     {},
     {"{", json::kComparisonDocument.name}},
    {"junit",
     "JUnit XML with a test case per gate",
     junit_of,
     junit_of,
     {"<?xml ", " package=\"noisemark "},
     {"<?xml ", kWhole}},
    {"gha-smaller",
     "what github-action-benchmark reads with customSmallerIsBetter",
     of_results<smaller_is_better>,
     of_comparison<smaller_is_better>,
     {"[", kCell},
     {"[", kKept}},
    {"gha-bigger",
     "what github-action-benchmark reads with customBiggerIsBetter",
     of_results<bigger_is_better>,
     of_comparison<bigger_is_better>,
     {"[", kCell},
     {"[", kKept}},
    {"bmf",
     "Bencher Metric Format",
     of_results<bencher_json>,
     of_comparison<bencher_json>,
     {"{", kCell},
     {"{", "\"figures_lost\""}},
    {"ctest",
     "a list of CTestMeasurement lines",
     of_results<ctest_lines>,
     ctest_of,
     {"<CTestMeasurement ", kCell},
     {"<CTestMeasurement ", kKept}},
};

}  // namespace

bool TextForm::is_of(std::string_view text) const {
  return !begins.empty() && text.starts_with(begins) && text.find(holds) != text.npos;
}

bool is_export(std::string_view text, bool of_comparison) {
  if (text == "[]\n" || text == "{}\n") return true;  // it has no figures
  const auto is_any = [&](TextForm ExportFormat::*form) {
    return std::any_of(std::begin(kFormats), std::end(kFormats),
                       [&](const ExportFormat& format) { return (format.*form).is_of(text); });
  };
  const bool comparison = is_any(&ExportFormat::comparison_form);
  return of_comparison ? comparison : is_any(&ExportFormat::results_form) && !comparison;
}

std::span<const ExportFormat> export_formats() {
  return kFormats;
}

const ExportFormat& export_format(std::string_view name) {
  for (const ExportFormat& format : kFormats) {
    if (format.name == name) return format;
  }
  throw std::logic_error("export_format: there is no such format");
}

namespace {

/// One metric of one cell, in all its runs.
struct Series {
  std::string cell;
  const Metric* first = nullptr;
  std::vector<double> values;
  std::set<std::string> commits;
};

void add_run(const NamedResult& run, std::vector<Series>& all) {
  const Provenance& from = run.result.provenance;
  const std::string cell = cell_name(run.result.identity);
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
    series->commits.insert(from.shown_commit());
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
  figure.note = fmt::format("{} of {}", format_counted(static_cast<int64_t>(runs), "run"),
                            fmt::join(series.commits, " "));
  return figure;
}

/// Makes a figure of a row of either kind.
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

/// The fate of the figures that BASE has of a cell.
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
  for (const NamedResult& run : results) add_run(run, by_cell[cell_name(run.result.identity)]);
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

namespace {

constexpr size_t kReserved = 128;  // room for the mark and the sentence before it

std::string quality(const std::vector<NamedResult>& results) {
  MarkdownTable table({{"result"},
                       {"seed", Align::kRight},
                       {"val loss", Align::kRight},
                       {"at the start", Align::kRight},
                       {"target", Align::kRight},
                       {"time to it", Align::kRight}});
  for (const auto& [name, result] : results) {
    const Quality& q = result.quality;
    if (q.evaluations.empty()) continue;
    table.add_row({name, fmt::format("{}", result.seeds.base),
                   metric_cell(result, *find_metric_row(kLossMetric)),
                   format_number(q.evaluations.front().loss),
                   q.target_loss ? format_number(*q.target_loss) : std::string(kMissing),
                   q.time_to_quality_s ? format_seconds(*q.time_to_quality_s) : "not reached"});
  }
  return table.empty() ? "" : "\n## Quality\n\n" + table.text();
}

std::string folded(const NamedResult& named) {
  const Result& result = named.result;
  const std::array parts{sections::what_ran(result),      sections::gates(result),
                         sections::step_time(result, ""), sections::saved_tensors(result),
                         sections::operators(result),     sections::noise(result),
                         sections::environment(result),   sections::seeds(result),
                         sections::data(result),          sections::repeat(result)};
  std::string text =
      fmt::format("\n<details><summary>{}</summary>\n", xml_text(one_line(named.name)));
  for (const std::string& part : parts) {
    if (!part.empty()) text += fmt::format("\n{}", part);
  }
  return text + "\n</details>\n";
}

}  // namespace

std::string summary_markdown(const CollectedResults& results, size_t limit) {
  std::string text = finished_page(suite_summary(results.title, results.results, results.missing) +
                                   machine_sections(results.results) + quality(results.results));
  size_t left_out = 0;
  for (const NamedResult& named : results.results) {
    const std::string more = finished_page(folded(named));
    const bool fits = text.size() + more.size() + kReserved <= limit;
    if (fits) text += more;
    left_out += fits ? 0 : 1;
  }
  if (left_out > 0) text += fmt::format("\nDetails left out for their length: {}.\n", left_out);
  return text + "\n" + std::string(kResultsMark);
}

}  // namespace noisemark::reports
