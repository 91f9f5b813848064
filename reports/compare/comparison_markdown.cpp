#include "reports/compare/comparison_markdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "reports/compare/comparison_memory.h"
#include "reports/compare/next_step.h"
#include "reports/markdown.h"
#include "reports/quantity.h"

namespace noisemark::reports {
namespace {

constexpr size_t kDigestDigits = 12;
constexpr const char* kHowStored =
    "Where runs were not made in turns: Welch's test with the variance between sessions added, "
    "which "
    "is weaker evidence.\n";
constexpr std::string_view kMark = "\n<!-- noisemark comparison -->\n";

std::string verdict_cell(CompareVerdict verdict) {
  const std::string name(verdict_name(verdict));
  return exit_code_of(verdict) == ExitCode::kPass ? name : "**" + name + "**";
}

std::string quantity_cell(const std::optional<double>& value, const std::string& unit) {
  return value ? format_quantity(*value, unit) : "none";
}

std::string exact_cell(const std::optional<double>& value, const std::string& digest,
                       const std::string& unit) {
  if (!digest.empty()) return digest.substr(0, kDigestDigits);
  if (!value) return "none";
  if (unit == "bytes") return format_exact_bytes(static_cast<int64_t>(*value));
  return format_count(static_cast<int64_t>(*value));
}

std::string ratio_cell(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.4f}", *ratio) : "";
}

std::string interval_cell(const std::optional<Interval>& interval) {
  return interval ? fmt::format("{:.4f} to {:.4f}", interval->low, interval->high) : "";
}

std::string p_cell(const std::optional<double>& p) {
  return p ? fmt::format("{:.2g}", *p) : "";
}

std::string margin_cell(const StochasticRow& row) {
  return row.gated ? format_percent(row.margin_frac) : "";
}

std::string list(const std::string& heading, const std::vector<std::string>& items) {
  if (items.empty()) return "";
  std::string text = fmt::format("\n{}:\n\n", heading);
  for (const std::string& item : items) text += fmt::format("- {}\n", item);
  return text;
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
  const auto passed = std::count_if(
      comparison.exact.begin(), comparison.exact.end(),
      [](const ExactRow& row) { return exit_code_of(row.verdict) == ExitCode::kPass; });
  return fmt::format(
      "{} on both sides. Gates with noise: {}. Figures without noise: {} of {} pass. {}.\n",
      comparison.cells == 1 ? "1 cell" : fmt::format("{} cells", comparison.cells),
      parts.empty() ? (comparison.noise_left_out ? "left out" : "none")
                    : fmt::format("{}", fmt::join(parts, ", ")),
      passed, comparison.exact.size(), exit_words(comparison));
}

std::string head(const Comparison& comparison) {
  std::string text =
      fmt::format("# {}: {} to {}\n\n{}", verdict_name(comparison.verdict), comparison.base.name,
                  comparison.candidate.name, counts(comparison));
  if (!comparison.reasons.empty()) text += '\n';
  for (const std::string& reason : comparison.reasons) text += fmt::format("- {}\n", reason);
  return text;
}

/// Folded: another image of the machine is another version of every package.
std::string environment(const std::vector<FieldDifference>& differences) {
  if (differences.empty()) return "";
  MarkdownTable table({{"setting"}, {"BASE"}, {"NEW"}});
  for (const FieldDifference& setting : differences) {
    table.add_row({code(setting.field), setting.base, setting.candidate});
  }
  return fmt::format(
      "\n<details>\n<summary>{} of the environment, which no identity holds, "
      "differ{}</summary>\n\n{}"
      "\n</details>\n",
      differences.size() == 1 ? "1 setting" : fmt::format("{} settings", differences.size()),
      differences.size() == 1 ? "s" : "", table.text());
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
    MarkdownTable fields({{"cell"}, {"field"}, {"BASE"}, {"NEW"}});
    for (const FieldDifference& field : comparison.differences) {
      fields.add_row({field.cell, code(field.field), field.base, field.candidate});
    }
    text += '\n';
    text += fields.text();
  }
  text += environment(comparison.environment);
  text += list("Only in BASE", comparison.only_base);
  text += list("Only in NEW", comparison.only_candidate);
  text += list("Runs without a partner", comparison.unpaired);
  return text + list("Runs without a result", comparison.without_result);
}

// What every table of figures with noise begins with; `more` are its own columns.
std::vector<MarkdownTable::Column> stochastic_columns(std::vector<MarkdownTable::Column> more) {
  std::vector<MarkdownTable::Column> columns = {{"cell"},
                                                {"metric"},
                                                {"BASE", Align::kRight},
                                                {"NEW", Align::kRight},
                                                {"ratio", Align::kRight},
                                                {"95 %", Align::kRight}};
  columns.insert(columns.end(), more.begin(), more.end());
  return columns;
}

std::vector<std::string> stochastic_cells(const StochasticRow& row,
                                          const std::vector<std::string>& more) {
  std::vector<std::string> cells = {row.cell,
                                    row.metric,
                                    quantity_cell(row.base, row.unit),
                                    quantity_cell(row.candidate, row.unit),
                                    ratio_cell(row.ratio),
                                    interval_cell(row.ratio_ci95)};
  cells.insert(cells.end(), more.begin(), more.end());
  return cells;
}

std::string gates(const Comparison& comparison) {
  MarkdownTable table(stochastic_columns({{"p (Holm)", Align::kRight},
                                          {"margin", Align::kRight},
                                          {"pairs", Align::kRight},
                                          {"verdict"},
                                          {"why"}}));
  for (const StochasticRow& row : comparison.stochastic) {
    if (!row.judged()) continue;
    table.add_row(
        stochastic_cells(row, {p_cell(row.p_adjusted), margin_cell(row), std::to_string(row.pairs),
                               verdict_cell(row.verdict), row.words}));
  }
  if (table.empty()) {
    return fmt::format("\n## Gates\n\n{}\n", comparison.noise_left_out ? "Left out by --exact."
                                                                       : "None could be applied.");
  }
  return fmt::format(
             "\n## Gates\n\n{}\nratio: NEW / BASE, Hodges-Lehmann over pairs of runs, with a "
             "bootstrap "
             "interval ({} resamples, seed {}). p: signed-rank test, one-sided, together at {}.\n",
             table.text(), comparison.resamples, comparison.seed, format_number(comparison.alpha)) +
         (comparison.any_stored() ? kHowStored : "");
}

/// Figures that explain or qualify the gates, and have a section of their own.
const std::vector<std::pair<std::string, std::vector<std::string>>>& explaining() {
  static const std::vector<std::pair<std::string, std::vector<std::string>>> table = {
      {"Utilization", {"mfu_frac", "achieved_flop_per_s"}},
      {"Quality",
       {"val_loss", "val_loss_weighted", "excess_loss", "time_to_quality_s",
        "samples_to_quality"}}};
  return table;
}

std::string explanation(const Comparison& comparison, const std::string& heading,
                        const std::vector<std::string>& metrics) {
  MarkdownTable table(stochastic_columns({{"smallest difference shown", Align::kRight}}));
  for (const StochasticRow& row : comparison.stochastic) {
    if (std::find(metrics.begin(), metrics.end(), row.metric) == metrics.end()) continue;
    table.add_row(
        stochastic_cells(row, {row.detectable_frac ? format_percent(*row.detectable_frac) : ""}));
  }
  return table.empty() ? "" : fmt::format("\n## {}\n\n{}", heading, table.text());
}

std::string explanations(const Comparison& comparison) {
  std::string text;
  for (const auto& [heading, metrics] : explaining()) {
    text += explanation(comparison, heading, metrics);
  }
  return text;
}

bool is_explained(const std::string& metric) {
  for (const auto& [heading, metrics] : explaining()) {
    if (std::find(metrics.begin(), metrics.end(), metric) != metrics.end()) return true;
  }
  return false;
}

std::vector<std::string> exact_cells(const ExactRow& row) {
  return {row.cell,
          row.metric,
          exact_cell(row.base, row.base_digest, row.unit),
          exact_cell(row.candidate, row.candidate_digest, row.unit),
          verdict_cell(row.verdict),
          row.words};
}

MarkdownTable exact_table() {
  return MarkdownTable({{"cell"},
                        {"figure"},
                        {"BASE", Align::kRight},
                        {"NEW", Align::kRight},
                        {"verdict"},
                        {"why"}});
}

bool is_equal(const ExactRow& row) {
  return row.base == row.candidate && row.base_digest == row.candidate_digest;
}

std::string without_noise(const Comparison& comparison) {
  MarkdownTable table = exact_table();
  int64_t equal = 0;
  for (const ExactRow& row : comparison.exact) {
    const bool fold = row.by_owner() && is_equal(row);
    equal += fold ? 1 : 0;
    if (!fold) table.add_row(exact_cells(row));
  }
  if (table.empty()) return "\n## Without noise\n\nNothing was compared.\n";
  return fmt::format("\n## Without noise\n\n{}\nBytes by owner that are equal, not shown: {}.\n",
                     table.text(), format_count(equal));
}

std::string noise(const Comparison& comparison) {
  std::string text = "\n## Noise\n\n";
  MarkdownTable table({{"cell"},
                       {"metric"},
                       {"smallest difference these pairs show", Align::kRight},
                       {"noise floor", Align::kRight}});
  for (const StochasticRow& row : comparison.stochastic) {
    if (!row.gated || !row.detectable_frac) continue;
    table.add_row(
        {row.cell, row.metric, format_percent(*row.detectable_frac),
         row.noise_floor_frac > 0 ? format_percent(row.noise_floor_frac) : "not calibrated"});
  }
  if (!comparison.noise_left_out) {
    text += table.empty() ? "No gate had enough pairs to tell.\n" : table.text();
  }
  return text + list("About the runs", comparison.notes);
}

std::string everything_else(const Comparison& comparison) {
  MarkdownTable others(stochastic_columns(
      {{"p", Align::kRight}, {"p (Benjamini-Hochberg)", Align::kRight}, {"why"}}));
  for (const StochasticRow& row : comparison.stochastic) {
    if (row.judged() || is_explained(row.metric)) continue;
    others.add_row(stochastic_cells(row, {p_cell(row.p), p_cell(row.p_adjusted), row.words}));
  }
  MarkdownTable owners = exact_table();
  int64_t nothing = 0;
  for (const ExactRow& row : comparison.exact) {
    if (!row.by_owner()) continue;
    const bool empty = row.base == 0.0 && row.candidate == 0.0;
    nothing += empty ? 1 : 0;
    if (!empty) owners.add_row(exact_cells(row));
  }
  std::string text =
      "\n<details><summary>Everything else; nothing here is judged by itself"
      "</summary>\n\n";
  if (!others.empty()) text += others.text() + "\n";
  if (!owners.empty()) text += owners.text() + "\n";
  if (nothing > 0) {
    text += fmt::format("Bytes by owner that are 0 on both sides, not shown: {}.\n\n",
                        format_count(nothing));
  }
  return text + "</details>\n";
}

constexpr size_t kMostCommands = 3;

/// How the runs of both sides were made, to make more of them.
std::string repeat(const Comparison& comparison) {
  std::string text;
  for (const auto& [side, name] :
       {std::pair(&comparison.base, "BASE"), std::pair(&comparison.candidate, "NEW")}) {
    const std::vector<std::string>& commands = side->repeat_commands;
    for (size_t i = 0; i < std::min(commands.size(), kMostCommands); ++i) {
      text += fmt::format("- {}: {}\n", name, code(commands[i]));
    }
    if (commands.size() > kMostCommands) {
      text += fmt::format("- {}: {} more, in the results\n", name, commands.size() - kMostCommands);
    }
  }
  return text.empty() ? "" : "\nTo repeat a run:\n\n" + text;
}

}  // namespace

std::string comparison_markdown(const Comparison& comparison, size_t limit) {
  std::string text = head(comparison) + comparability(comparison) + gates(comparison) +
                     without_noise(comparison) + memory_by_owner(comparison) +
                     explanations(comparison) + noise(comparison) + "\n## Next\n\n" +
                     next_step(comparison) + repeat(comparison);
  const std::string details = everything_else(comparison);
  const bool fits = text.size() + details.size() + kMark.size() <= limit;
  text +=
      fits ? details : "\nEverything else was left out for its length; `--format json` has it.\n";
  return text + std::string(kMark);
}

}  // namespace noisemark::reports
