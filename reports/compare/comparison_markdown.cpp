#include "reports/base/sha256.h"
#include "reports/compare/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/base/streams.h"
#include "reports/result/metrics.h"

namespace noisemark::reports {
namespace {

constexpr const char* kHowStored =
    "Where runs were not made in turns it is that of Welch's test with the variance between "
    "sessions added, which is weaker evidence.\n";

/// Returns the cell of which all figures are, or no text where there are several.
std::string lone_cell(const Comparison& comparison) {
  std::set<std::string> cells;
  for (const ExactRow& row : comparison.exact) cells.insert(row.cell);
  for (const StochasticRow& row : comparison.stochastic) cells.insert(row.cell);
  for (const FieldDifference& field : comparison.differences) cells.insert(field.cell);
  return cells.size() == 1 ? *cells.begin() : "";
}

MarkdownTable::Column cell_column(const Comparison& comparison) {
  return {"cell", Align::kLeft, lone_cell(comparison).empty() ? Fold::kIfAlike : Fold::kAlways};
}

MarkdownTable::Column why_column() {
  return {"why", Align::kLeft, Fold::kIfEmpty};
}

std::string exact_cell(const std::optional<double>& value, const std::string& digest,
                       const std::string& unit) {
  if (!digest.empty()) return shown_digits(digest);
  if (!value) return std::string(kMissing);
  if (unit == "bytes") return format_exact_bytes(static_cast<int64_t>(*value));
  return format_count(static_cast<int64_t>(*value));
}

std::string ratio_cell(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.4f}", *ratio) : "";
}

std::string interval_cell(const std::optional<Interval>& interval) {
  return interval ? fmt::format("{:.4f} to {:.4f}", interval->low, interval->high) : "";
}

std::string margin_cell(const StochasticRow& row) {
  return row.gated ? format_percent(row.margin_frac) : "";
}

std::string counts(const Comparison& comparison) {
  std::map<CompareVerdict, int64_t> gates;
  for (const StochasticRow& row : comparison.stochastic) {
    if (row.judged()) ++gates[row.verdict];
  }
  std::vector<std::string> parts;
  for (const auto& [verdict, count] : gates) {
    parts.push_back(fmt::format("{} {}", count, verdict_name(verdict)));
  }
  const auto passed = std::count_if(comparison.exact.begin(), comparison.exact.end(),
                                    [](const ExactRow& row) { return passes(row.verdict); });
  return fmt::format("Both sides have {}. {}. {} of {} figures without noise pass. {}.\n",
                     format_counted(comparison.cells, "cell"),
                     !parts.empty() ? fmt::format("Gates with noise say {}", fmt::join(parts, ", "))
                     : comparison.noise_left_out ? "Gates with noise were left out"
                                                 : "No gate with noise could be applied",
                     passed, comparison.exact.size(), exit_words(comparison));
}

/// INCOMPLETE alone says nothing of what somebody has to do.
std::string verdict_title(const Comparison& comparison) {
  std::string title = capitals(verdict_name(comparison.verdict));
  const size_t lacking = comparison.only_base.size();
  if (comparison.verdict == CompareVerdict::kIncomplete && lacking > 0) {
    title += fmt::format(", because NEW lacks {} of BASE",
                         format_counted(static_cast<int64_t>(lacking), "cell"));
  }
  return title;
}

std::string head(const Comparison& comparison) {
  std::string text =
      fmt::format("# {}: {} to {}\n\n{}", verdict_title(comparison), plain(comparison.base.name),
                  plain(comparison.candidate.name), counts(comparison));
  text += bullets(comparison.reasons);
  const std::string cell = lone_cell(comparison);
  if (!cell.empty()) text += fmt::format("\nAll figures are of the cell {}.\n", plain(cell));
  return text;
}

/// Folds the packages: another image of the machine is another version of every package.
std::string environment(const std::vector<FieldDifference>& differences) {
  if (differences.empty()) return "";
  MarkdownTable table({{"setting"}, {"BASE"}, {"NEW"}});
  for (const FieldDifference& setting : differences) {
    table.add_row({code(setting.field), setting.base, setting.candidate});
  }
  return fmt::format(
      "\n<details>\n<summary>{} of the environment, which no identity holds, differ{}</summary>\n\n"
      "{}\n</details>\n",
      format_counted(static_cast<int64_t>(differences.size()), "setting"),
      differences.size() == 1 ? "s" : "", table.text());
}

/// A digest of 64 digits breaks nowhere, and two of them are wider than a page: their first digits
/// tell them apart.
std::string shown_value(const std::string& value) {
  return is_sha256(value) ? shown_digits(value) : value;
}

/// A suite that was not finished has many.
std::string without_result(const std::vector<std::string>& runs) {
  constexpr size_t kMostShown = 8;
  const std::string list = markdown_list("Runs without a result", runs);
  if (runs.size() <= kMostShown) return list;
  return fmt::format(
      "\n<details>\n<summary>{} runs are without a result</summary>\n{}\n</details>\n", runs.size(),
      list);
}

std::string comparability(const Comparison& comparison) {
  MarkdownTable sides({{"side"}, {"results"}, {"runs", Align::kRight}, {"commits"}});
  for (const auto& [side, name] :
       {std::pair(&comparison.base, "BASE"), std::pair(&comparison.candidate, "NEW")}) {
    sides.add_row({name, side->name, std::to_string(side->runs),
                   fmt::format("{}", fmt::join(side->commits, " "))});
  }
  std::string text = "\n## Comparability\n\n" + sides.text();
  if (comparison.differences.empty()) {
    text += "\nNo field of the identity differs.\n";
  } else {
    MarkdownTable fields({cell_column(comparison), {"field"}, {"BASE"}, {"NEW"}});
    for (const FieldDifference& field : comparison.differences) {
      fields.add_row(
          {field.cell, code(field.field), shown_value(field.base), shown_value(field.candidate)});
    }
    text += '\n';
    text += fields.text();
  }
  text += environment(comparison.environment);
  text += markdown_list("Only in BASE", comparison.only_base);
  text += markdown_list("Only in NEW", comparison.only_candidate);
  text += markdown_list("Runs without a partner", comparison.unpaired);
  return text + without_result(comparison.without_result);
}

// Every table of figures with noise begins with these columns; `more` are its own.
std::vector<MarkdownTable::Column> stochastic_columns(
    const Comparison& comparison, const std::vector<MarkdownTable::Column>& more) {
  return joined({cell_column(comparison),
                 {"metric"},
                 {"verdict", Align::kLeft, Fold::kIfEmpty},
                 {"ratio", Align::kRight},
                 {"95 %", Align::kRight},
                 {"BASE", Align::kRight},
                 {"NEW", Align::kRight}},
                more);
}

std::vector<std::string> stochastic_cells(const StochasticRow& row,
                                          const std::vector<std::string>& more) {
  return joined({row.cell, row.metric, row.judged() ? verdict_cell(row.verdict) : "",
                 ratio_cell(row.ratio), interval_cell(row.ratio_ci95),
                 quantity_cell(row.base, row.unit), quantity_cell(row.candidate, row.unit)},
                more);
}

std::string gates(const Comparison& comparison) {
  MarkdownTable table(stochastic_columns(comparison, {{"p (Holm)", Align::kRight},
                                                      {"margin", Align::kRight},
                                                      {"pairs", Align::kRight, Fold::kIfAlike},
                                                      why_column()}));
  for (const StochasticRow& row : comparison.stochastic) {
    if (!row.judged()) continue;
    table.add_row(stochastic_cells(row, {format_p_value(row.p_adjusted), margin_cell(row),
                                         std::to_string(row.pairs), row.words}));
  }
  if (table.empty()) {
    return fmt::format("\n## Gates\n\n{}\n", comparison.noise_left_out ? "Left out by --exact."
                                                                       : "None could be applied.");
  }
  return fmt::format(
             "\n## Gates\n\n{}\nA ratio is NEW / BASE by Hodges and Lehmann over pairs of runs, "
             "with a bootstrap interval ({} resamples, seed {}). p is that of one-sided "
             "signed-rank tests, together at {}. Worse by x % means x % more time per image, or x "
             "% more loss; margins are in the same measure.\n",
             table.text(), comparison.resamples, comparison.seed, format_number(comparison.alpha)) +
         (comparison.any_stored() ? kHowStored : "");
}

/// The section of a metric that explains or qualifies the gates; empty: it has none.
std::string_view section_of(const std::string& metric) {
  const MetricRow* row = find_metric_row(metric);
  return row == nullptr ? std::string_view() : row->section;
}

std::string explanation(const Comparison& comparison, std::string_view section) {
  MarkdownTable table(
      stochastic_columns(comparison, {{"smallest detectable difference", Align::kRight}}));
  for (const StochasticRow& row : comparison.stochastic) {
    if (section_of(row.metric) != section) continue;
    table.add_row(
        stochastic_cells(row, {row.detectable_frac ? format_percent(*row.detectable_frac) : ""}));
  }
  return table.empty() ? "" : fmt::format("\n## {}\n\n{}", section, table.text());
}

std::string explanations(const Comparison& comparison) {
  std::string text;
  std::set<std::string_view> written = {""};
  for (const MetricRow& row : metric_table()) {
    if (written.insert(row.section).second) text += explanation(comparison, row.section);
  }
  return text;
}

std::vector<std::string> exact_cells(const ExactRow& row) {
  return {row.cell,
          row.metric,
          verdict_cell(row.verdict),
          exact_cell(row.base, row.base_digest, row.unit),
          exact_cell(row.candidate, row.candidate_digest, row.unit),
          row.words};
}

MarkdownTable exact_table(const Comparison& comparison) {
  return MarkdownTable({cell_column(comparison),
                        {"figure"},
                        {"verdict"},
                        {"BASE", Align::kRight},
                        {"NEW", Align::kRight},
                        why_column()});
}

bool is_equal(const ExactRow& row) {
  return row.base == row.candidate && row.base_digest == row.candidate_digest;
}

std::string without_noise(const Comparison& comparison) {
  MarkdownTable table = exact_table(comparison);
  int64_t equal = 0;
  for (const ExactRow& row : comparison.exact) {
    const bool fold = row.by_owner() && is_equal(row);
    equal += fold ? 1 : 0;
    if (!fold) table.add_row(exact_cells(row));
  }
  if (table.empty()) return "\n## Without noise\n\nNothing was compared.\n";
  return fmt::format(
      "\n## Without noise\n\n{}\nEqual bytes by owner are not shown; there are {}.\n", table.text(),
      format_count(equal));
}

std::string noise(const Comparison& comparison) {
  std::string text = "\n## Noise\n\n";
  MarkdownTable table({cell_column(comparison),
                       {"metric"},
                       {"smallest detectable difference", Align::kRight},
                       {"noise floor", Align::kRight}});
  for (const StochasticRow& row : comparison.stochastic) {
    if (!row.gated || !row.detectable_frac) continue;
    table.add_row(
        {row.cell, row.metric, format_percent(*row.detectable_frac),
         row.noise_floor_frac > 0 ? format_percent(row.noise_floor_frac) : "not calibrated"});
  }
  const bool any_gate = std::any_of(comparison.stochastic.begin(), comparison.stochastic.end(),
                                    [](const StochasticRow& row) { return row.gated; });
  if (!comparison.noise_left_out) {
    text += !table.empty() ? table.text()
            : any_gate     ? "No gate had enough pairs to tell.\n"
                           : "No gate was applied, so nothing is known of noise.\n";
  }
  return text + markdown_list("About the runs", comparison.notes);
}

std::string other_figures(const Comparison& comparison) {
  MarkdownTable others(stochastic_columns(
      comparison, {{"p", Align::kRight}, {"p (Benjamini-Hochberg)", Align::kRight}, why_column()}));
  for (const StochasticRow& row : comparison.stochastic) {
    if (row.judged() || !section_of(row.metric).empty()) continue;
    others.add_row(
        stochastic_cells(row, {format_p_value(row.p), format_p_value(row.p_adjusted), row.words}));
  }
  if (others.empty()) return "";
  return fmt::format(
      "\n<details><summary>Other figures with noise; none of them is judged</summary>\n\n{}\n"
      "</details>\n",
      others.text());
}

std::string bytes_by_owner(const Comparison& comparison) {
  MarkdownTable owners = exact_table(comparison);
  int64_t nothing = 0;
  for (const ExactRow& row : comparison.exact) {
    if (!row.by_owner()) continue;
    const bool empty = row.base == 0.0 && row.candidate == 0.0;
    nothing += empty ? 1 : 0;
    if (!empty) owners.add_row(exact_cells(row));
  }
  if (owners.empty()) return "";
  std::string text =
      "\n<details><summary>Bytes by owner at each moment; these are judged</summary>\n\n" +
      owners.text() + "\n";
  if (nothing > 0) {
    text += fmt::format("Bytes by owner that are 0 on both sides are not shown; there are {}.\n\n",
                        format_count(nothing));
  }
  return text + "</details>\n";
}

constexpr size_t kMostCommands = 3;

/// Says how the runs of both sides were made, to make more of them.
std::string repeat(const Comparison& comparison) {
  std::string text;
  for (const auto& [side, name] :
       {std::pair(&comparison.base, "BASE"), std::pair(&comparison.candidate, "NEW")}) {
    const std::vector<std::string>& commands = side->repeat_commands;
    for (size_t i = 0; i < std::min(commands.size(), kMostCommands); ++i) {
      text += fmt::format("- {}: {}\n", name, code(commands[i]));
    }
    if (commands.size() > kMostCommands) {
      text +=
          fmt::format("- {}: the results have {} more\n", name, commands.size() - kMostCommands);
    }
  }
  return text.empty() ? "" : "\nTo repeat a run:\n\n" + text;
}

/// Rows of one cell that say who owned what at the peak.
struct PeakRows {
  std::vector<const ExactRow*> rows;
  bool differs = false;
};

constexpr std::string_view kAtPeak = "peak: ";
constexpr size_t kMostMemoryTables = 4;

std::map<std::string, PeakRows> peak_rows(const Comparison& comparison) {
  std::map<std::string, PeakRows> cells;
  for (const ExactRow& row : comparison.exact) {
    if (!row.metric.starts_with(kAtPeak)) continue;
    PeakRows& cell = cells[row.cell];
    cell.rows.push_back(&row);
    cell.differs = cell.differs || row.base != row.candidate;
  }
  return cells;
}

std::string bytes_cell(double bytes) {
  return format_bytes(static_cast<int64_t>(bytes));
}

std::string change_cell(double base, double candidate) {
  if (base == candidate) return "";
  const auto change = static_cast<int64_t>(std::abs(candidate - base));
  return fmt::format("{}{}", candidate > base ? '+' : '-', format_exact_bytes(change));
}

/// "peak_bytes" of the cell, which the owners add up to.
const ExactRow* peak_of(const Comparison& comparison, const std::string& cell) {
  for (const ExactRow& row : comparison.exact) {
    if (row.cell == cell && row.metric == "peak_bytes") return &row;
  }
  return nullptr;
}

std::string memory_table(const Comparison& comparison, const std::string& cell,
                         const PeakRows& peak) {
  MarkdownTable table({{"owner at the peak"},
                       {"BASE", Align::kRight},
                       {"NEW", Align::kRight},
                       {"change", Align::kRight}});
  double base = 0;
  double candidate = 0;
  for (const ExactRow* row : peak.rows) {
    const double a = row->base.value_or(0);
    const double b = row->candidate.value_or(0);
    base += a;
    candidate += b;
    if (a == 0 && b == 0) continue;
    table.add_row(
        {row->metric.substr(kAtPeak.size()), bytes_cell(a), bytes_cell(b), change_cell(a, b)});
  }
  table.add_row({"sum", bytes_cell(base), bytes_cell(candidate), change_cell(base, candidate)});
  const ExactRow* whole = peak_of(comparison, cell);
  const bool closes = whole != nullptr && whole->base == base && whole->candidate == candidate;
  const std::string head = lone_cell(comparison).empty() ? plain(cell) + ":\n\n" : "";
  return fmt::format("\n{}{}{}", head, table.text(),
                     closes ? "" : "\nThe sum is not peak_bytes.\n");
}

/// The section about who owned which bytes at the peak: a table for a lone cell, or for the first
/// cells in which they differ, each with the sum and whether that is peak_bytes. It is empty where
/// no bytes by owner were compared.
std::string memory_by_owner(const Comparison& comparison) {
  const std::map<std::string, PeakRows> cells = peak_rows(comparison);
  if (cells.empty()) return "";
  std::string text = "\n## Memory\n";
  size_t shown = 0;
  size_t equal = 0;
  for (const auto& [cell, peak] : cells) {
    const bool show = (peak.differs || cells.size() == 1) && shown < kMostMemoryTables;
    shown += show ? 1 : 0;
    equal += peak.differs ? 0 : 1;
    if (show) text += memory_table(comparison, cell, peak);
  }
  if (cells.size() > shown) {
    text += fmt::format("\nCells: {}, of which {} have equal bytes by owner; shown: {}.\n",
                        cells.size(), equal, shown);
  }
  return text;
}

}  // namespace

std::string comparison_markdown(const Comparison& comparison, size_t limit) {
  std::string text = finished_page(
      head(comparison) + comparability(comparison) + gates(comparison) + without_noise(comparison) +
      memory_by_owner(comparison) + explanations(comparison) + noise(comparison) + "\n## Next\n\n" +
      next_step(comparison) + repeat(comparison) + std::string(kGlossaryLine));
  const std::string details = finished_page(other_figures(comparison) + bytes_by_owner(comparison));
  const std::string mark = fmt::format("\n{}\n", kComparisonMark);
  const bool fits = details.empty() || text.size() + details.size() + mark.size() <= limit;
  text += fits ? details
               : "\nOther figures and bytes by owner were left out for their length; `--format "
                 "json` has them.\n";
  return text + mark;
}

namespace {

constexpr const char* kMakeInTurns =
    "Make the runs of both sides in turns (or use `noisemark ab`), or say with --calibration how "
    "far two sessions of this machine differ (`noisemark calibrate`).\n";

/// Says how many pairs the rows with this verdict need.
std::string more_pairs(const Comparison& comparison, CompareVerdict verdict) {
  int64_t pairs = 0;
  int64_t most = 0;
  bool near = false;
  bool stored = false;
  for (const StochasticRow& row : comparison.stochastic) {
    if (!row.gated || row.verdict != verdict) continue;
    near = near || (!row.pairs_needed && !row.stored);
    stored = stored || row.stored;
    if (row.pairs_needed.value_or(0) <= pairs) continue;
    pairs = *row.pairs_needed;
    most = row.pairs;
  }
  std::string text;
  if (pairs > 0) {
    text += fmt::format("Make {} more runs of each side in turns ({} pairs in all).\n",
                        std::max<int64_t>(1, pairs - most), std::max(pairs, most + 1));
  }
  if (near) {
    text += "A difference lies so near its margin that thousands of pairs would be needed.\n";
  }
  if (stored) text += kMakeInTurns;
  if (text.empty()) text = "Find out why a figure that should have no noise differs.\n";
  return text;
}

std::string usable_baseline(const Comparison& comparison) {
  return std::string("Make a usable BASE: passing runs that measured all that NEW did.\n") +
         (comparison.any_stored() ? kMakeInTurns : "");
}

/// Says whether it is proven, and by more than what is let pass in the other direction.
bool is_beyond_margin(const StochasticRow& row) {
  if (!row.gated || row.verdict != CompareVerdict::kImproved || !row.ratio_ci95) return false;
  const double most = 1 + row.margin_frac;
  return row.direction == Direction::kHigher ? row.ratio_ci95->low > most
                                             : row.ratio_ci95->high * most < 1;
}

/// A figure without noise has no margin either.
bool is_fewer_bytes(const ExactRow& row) {
  return row.verdict == CompareVerdict::kImproved && row.unit == "bytes" && !row.by_owner();
}

bool is_better(const Comparison& comparison) {
  return std::any_of(comparison.stochastic.begin(), comparison.stochastic.end(),
                     is_beyond_margin) ||
         std::any_of(comparison.exact.begin(), comparison.exact.end(), is_fewer_bytes);
}

/// A baseline that NEW beats is worth replacing, once somebody has looked at it.
std::string promotion(const Comparison& comparison) {
  const SideSummary& base = comparison.base;
  const bool enough = comparison.candidate.runs >= kFewestBaselineRuns;
  if (base.baseline_root.empty() || !enough || !is_better(comparison))
    return "There is nothing to do.\n";
  return fmt::format(
      "NEW is better, beyond the margin. To make it the stored baseline, run {}; then review the "
      "change and commit it.\n",
      code(fmt::format("noisemark baseline promote {} --into {} --hardware {} --force",
                       shell_word(comparison.candidate.name), shell_word(base.baseline_root),
                       shell_word(base.baseline_hardware))));
}

}  // namespace

std::string next_step(const Comparison& comparison) {
  switch (comparison.verdict) {
    case CompareVerdict::kQualityFail:
    case CompareVerdict::kRegression:
      return "The regression is proven; more runs will not change it. Look for its cause among the "
             "commits from BASE to NEW, for example with `noisemark profile` of both.\n";
    case CompareVerdict::kIncomplete:
      return comparison.only_base.empty()
                 ? "Repeat the runs of NEW, so that each ends with a result that has every "
                   "figure of BASE.\n"
                 : "Run in NEW too what stands under \"Only in BASE\", or compare folders that "
                   "hold the same cells.\n";
    case CompareVerdict::kInvalidClocks:
      return "Cool or power the device better, or lock its clocks (`noisemark doctor`), and run "
             "both sides again.\n";
    case CompareVerdict::kRecipeMismatch:
      return "Give the changed definition a new version, or run BASE again with it.\n";
    case CompareVerdict::kNotComparable:
      return "Run both sides with the same definition, seeds, software and settings on the same "
             "machine; `noisemark table` shows results side by side without judging.\n";
    case CompareVerdict::kTooFewPairs:
      return more_pairs(comparison, comparison.verdict) +
             "Or judge figures without noise alone: --exact.\n";
    case CompareVerdict::kCalibrationNeeded:
      return usable_baseline(comparison);
    case CompareVerdict::kUnstable:
      return "Make longer runs, or a quieter machine (`noisemark doctor`), so that the time of a "
             "step settles.\n";
    case CompareVerdict::kInconclusive:
      return more_pairs(comparison, comparison.verdict);
    case CompareVerdict::kSkipped:
      return "Compare where it can run.\n";
    default:
      return promotion(comparison);
  }
}

}  // namespace noisemark::reports
