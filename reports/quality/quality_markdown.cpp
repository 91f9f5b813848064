#include "reports/quality/quality_markdown.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "reports/markdown.h"
#include "reports/quality/distance_markdown.h"
#include "reports/quality/looks.h"
#include "reports/quality/quality_text.h"
#include "reports/quantity.h"

namespace noisemark::reports {
namespace {

using Row = std::vector<std::string>;
using Columns = std::vector<MarkdownTable::Column>;

std::string verdict_cell(QualityVerdict verdict) {
  const std::string name(verdict_name(verdict));
  return verdict == QualityVerdict::kPass ? name : "**" + name + "**";
}

std::string p_cell(const std::optional<double>& p) {
  return p ? fmt::format("{:.2g}", *p) : "";
}

/// Of losses, ratios and seconds alike: six digits and the unit.
std::string value_cell(const std::optional<double>& value, const std::string& unit) {
  return value ? format_quantity(*value, unit) : "none";
}

std::string difference_cell(const QualityRow& row) {
  return row.difference ? difference_text(row, *row.difference) : "none";
}

std::string interval_cell(const QualityRow& row) {
  return row.interval ? interval_text(row, *row.interval) : "none";
}

Columns joined(Columns columns, const Columns& more) {
  columns.insert(columns.end(), more.begin(), more.end());
  return columns;
}

/// What every table of rows begins with.
Columns row_columns(const Columns& more) {
  return joined({{"benchmark"},
                 {"variant"},
                 {"measure"},
                 {"reference", Align::kRight},
                 {"variant's", Align::kRight},
                 {"difference", Align::kRight},
                 {"interval", Align::kRight}},
                more);
}

Row row_cells(const QualityRow& row, const Row& more) {
  Row cells = {row.benchmark,
               row.variant,
               measure_text(row),
               value_cell(row.reference_mean, row.unit),
               value_cell(row.candidate_mean, row.unit),
               difference_cell(row),
               interval_cell(row)};
  cells.insert(cells.end(), more.begin(), more.end());
  return cells;
}

std::string list(const std::string& heading, const std::vector<std::string>& items) {
  if (items.empty()) return "";
  std::string text = fmt::format("\n{}:\n\n", heading);
  for (const std::string& item : items) text += fmt::format("- {}\n", item);
  return text;
}

std::string counts(const QualityStudy& study) {
  std::map<QualityVerdict, int64_t> verdicts;
  for (const QualityRow& row : study.rows) {
    if (row.gated) ++verdicts[row.verdict];
  }
  for (const RangeRow& row : study.ranges) ++verdicts[row.verdict];
  for (const StepRow& row : study.steps) {
    if (row.verdict) ++verdicts[*row.verdict];
  }
  std::vector<std::string> parts;
  for (const auto& [verdict, count] : verdicts) {
    parts.push_back(fmt::format("{} {}", count, verdict_name(verdict)));
  }
  return parts.empty() ? "none could be applied" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string benchmarks(const QualityStudy& study) {
  std::set<std::string> names;
  for (const VariantRuns& variant : study.variants) names.insert(variant.benchmark);
  return fmt::format("{}", fmt::join(names, "; "));
}

/// What the reader must know before the verdict: it is of another work than the name says.
std::string not_locked(const QualityStudy& study) {
  std::set<std::string> lines;
  for (const VariantRuns& variant : study.variants) {
    for (const std::string& remark : variant.remarks) {
      lines.insert(fmt::format("- {}: {}\n", variant.benchmark, remark));
    }
  }
  if (lines.empty()) return "";
  return fmt::format("\nNot the locked benchmark:\n\n{}", fmt::join(lines, ""));
}

std::string head(const QualityStudy& study) {
  const bool let_pass = exit_code_of(study) != exit_code_of(study.verdict);
  std::string text = fmt::format(
      "# {}: quality of {}\n\nGates: {}. Exit code {}{}.\n", verdict_name(study.verdict),
      benchmarks(study), counts(study), static_cast<int>(exit_code_of(study)),
      let_pass ? ", for what is inconclusive was let pass (--inconclusive=warn)" : "");
  if (!study.reasons.empty()) text += '\n';
  for (const std::string& reason : study.reasons) text += fmt::format("- {}\n", reason);
  return text + not_locked(study);
}

/// Of the runs of this study: seeds may be added as long as one is left.
std::string which_look(const QualityStudy& study) {
  const Looks& looks = study.looks;
  const std::string share =
      looks.declared == 1 ? "" : ", each with its share of " + format_number(study.alpha);
  const std::string which =
      none_is_left(looks) ? "no look left" : fmt::format("look {}", looks.number);
  const char* halves = study.asked_gates.empty() || study.asked_ranges.empty()
                           ? ""
                           : ", half of it the gates' and half the ranges'";
  return fmt::format("{} of {} declared{}{}", which, looks.declared, share, halves);
}

std::string how_judged(const QualityStudy& study) {
  const double alpha =
      alpha_of_a_family(study.alpha, study.looks.declared, study.asked_gates, study.asked_ranges);
  return fmt::format(
      "\ndifference: over seeds that both sides have, positive is worse; of ratios the geometric "
      "mean. interval: {:g} %, of a t test over seeds. p: two one-sided tests (TOST), by Holm "
      "among {}, together at {}: {}.\n",
      100 * (1 - 2 * alpha), study.tests == 1 ? "1 test" : fmt::format("{} tests", study.tests),
      format_number(alpha), which_look(study));
}

std::string gates(const QualityStudy& study) {
  MarkdownTable table(row_columns({{"margin", Align::kRight},
                                   {"seeds", Align::kRight},
                                   {"p (Holm)", Align::kRight},
                                   {"verdict"},
                                   {"why"}}));
  for (const QualityRow& row : study.rows) {
    if (!row.gated) continue;
    table.add_row(row_cells(row, {fmt::format("{} ({})", margin_text(row), row.margin_from),
                                  std::to_string(row.seeds.size()), p_cell(row.p_adjusted),
                                  verdict_cell(row.verdict), row.words}));
  }
  if (table.empty()) return "\n## Gates\n\nNone could be applied.\n";
  return "\n## Gates\n\n" + table.text() + how_judged(study);
}

std::string ranges(const QualityStudy& study) {
  if (study.ranges.empty()) return "";
  MarkdownTable table({{"benchmark"},
                       {"variant"},
                       {"measure"},
                       {"mean", Align::kRight},
                       {"interval", Align::kRight},
                       {"range", Align::kRight},
                       {"seeds", Align::kRight},
                       {"verdict"},
                       {"why"}});
  for (const RangeRow& row : study.ranges) {
    table.add_row({row.benchmark, row.variant, row.measure, value_cell(row.mean, row.unit),
                   row.interval ? fmt::format("{} to {}", format_number(row.interval->low),
                                              format_number(row.interval->high))
                                : "none",
                   fmt::format("{} to {}", format_number(row.low), format_number(row.high)),
                   std::to_string(row.seeds), verdict_cell(row.verdict), row.words});
  }
  return fmt::format(
      "\n## Ranges\n\n{}\ninterval: of the mean over seeds, bootstrap ({} resamples, seed {}) and "
      "Student's t together, alpha shared by Bonferroni.\n",
      table.text(), study.resamples, study.seed);
}

std::string steps(const QualityStudy& study) {
  if (study.steps.empty()) return "";
  MarkdownTable table({{"benchmark"},
                       {"variant"},
                       {"tier"},
                       {"gradient's error", Align::kRight},
                       {"at most", Align::kRight},
                       {"seeds", Align::kRight},
                       {"verdict"},
                       {"why"}});
  for (const StepRow& row : study.steps) {
    table.add_row({row.benchmark, row.variant, row.tier == 0 ? "0, bits" : "1, gradient",
                   row.value ? format_number(*row.value) : "",
                   row.bound ? format_number(*row.bound) : "", std::to_string(row.seeds),
                   row.verdict ? verdict_cell(*row.verdict) : "not judged", row.words});
  }
  return "\n## Every step\n\n" + table.text();
}

std::string sheets(const QualityStudy& study) {
  std::string text = study.sheets.empty() ? "" : "\n## Samples\n";
  for (const std::string& sheet : study.sheets) {
    text += fmt::format("\n{}:\n\n![samples]({})\n", code(sheet), sheet);
  }
  return text;
}

std::string needed_cell(const QualityRow& row) {
  if (row.seeds_needed) {
    const auto more = *row.seeds_needed - static_cast<int64_t>(row.seeds.size());
    return fmt::format("{} ({} more)", *row.seeds_needed, std::max<int64_t>(0, more));
  }
  if (row.verdict != QualityVerdict::kInconclusive || !row.detectable) return "";
  return "over 10,000";
}

/// Where the seeds that are needed have to come from.
std::string which_seeds(const QualityStudy& study) {
  const bool needed = std::any_of(study.rows.begin(), study.rows.end(), [](const QualityRow& row) {
    return row.gated && row.seeds_needed.has_value();
  });
  if (!needed || study.looks.number < study.looks.declared) return "";
  return " No look is left for seeds added to these: as many new ones (--seed), in another folder.";
}

std::string power(const QualityStudy& study) {
  MarkdownTable table({{"benchmark"},
                       {"variant"},
                       {"measure"},
                       {"correlation", Align::kRight},
                       {"test"},
                       {"degrees", Align::kRight},
                       {"smallest detectable", Align::kRight},
                       {"seeds needed", Align::kRight}});
  for (const QualityRow& row : study.rows) {
    if (!row.gated) continue;
    table.add_row({row.benchmark, row.variant, measure_text(row),
                   row.correlation ? fmt::format("{:+.3f}", *row.correlation) : "none",
                   row.design ? std::string(design_name(*row.design)) : "none",
                   row.degrees ? fmt::format("{:.3g}", *row.degrees) : "",
                   row.detectable ? size_text(row, *row.detectable) : "none", needed_cell(row)});
  }
  if (table.empty()) return "";
  return fmt::format(
      "\n## What these seeds can show\n\n{}\ncorrelation: of both sides across seeds. Welch's test "
      "where it lies from 0 to 0.5, the paired one elsewhere: declared before. smallest "
      "detectable: "
      "with power {}, at the strictest step of Holm. seeds needed: to decide with that power, were "
      "the difference and the spread what these seeds say.{}\n",
      table.text(), format_number(study.power), which_seeds(study));
}

using Chooses = std::function<bool(const QualityRow&)>;

std::string described(const QualityStudy& study, const std::string& heading,
                      const std::string& words, const Chooses& chooses) {
  MarkdownTable table(row_columns({{"seeds", Align::kRight}, {"why not all"}}));
  for (const QualityRow& row : study.rows) {
    if (!chooses(row)) continue;
    table.add_row(row_cells(row, {std::to_string(row.seeds.size()), row.words}));
  }
  if (table.empty()) return "";
  return fmt::format("\n## {}\n\n{}\n{}\n", heading, table.text(), words);
}

std::string others(const QualityStudy& study) {
  return described(study, "Other figures",
                   "They judge nothing; intervals are not adjusted for their number.",
                   [](const QualityRow& row) { return !row.gated && !row.timestep; });
}

std::string timesteps(const QualityStudy& study) {
  return described(study, "By timestep",
                   "The unweighted loss. The training weight of a timestep is the same on both "
                   "sides, so weighted losses have these ratios too. They judge nothing.",
                   [](const QualityRow& row) { return row.timestep.has_value(); });
}

std::string seeds(const QualityStudy& study) {
  MarkdownTable table({{"benchmark"},
                       {"variant"},
                       {"measure"},
                       {"seed", Align::kRight},
                       {"reference", Align::kRight},
                       {"variant's", Align::kRight},
                       {"difference", Align::kRight}});
  for (const QualityRow& row : study.rows) {
    if (!row.gated) continue;
    for (const SeedPair& pair : row.seeds) {
      table.add_row({row.benchmark, row.variant, measure_text(row), std::to_string(pair.seed),
                     value_cell(pair.reference, row.unit), value_cell(pair.candidate, row.unit),
                     difference_text(row, pair.worsening)});
    }
  }
  return table.empty() ? "" : "\n## Seeds\n\n" + table.text();
}

std::string runs(const QualityStudy& study) {
  MarkdownTable table({{"benchmark"}, {"variant"}, {"seeds"}, {"runs"}, {"commits"}});
  std::vector<std::string> commands;
  for (const VariantRuns& variant : study.variants) {
    table.add_row({variant.benchmark, variant.variant,
                   fmt::format("{}", fmt::join(variant.seeds, " ")),
                   fmt::format("{}", fmt::join(variant.run_ids, " ")),
                   fmt::format("{}", fmt::join(variant.commits, " "))});
    if (!variant.repeat_command.empty()) commands.push_back(code(variant.repeat_command));
  }
  std::string text = "\n## Runs\n\n" + table.text();
  if (!study.differences.empty()) {
    MarkdownTable fields({{"variant"}, {"field"}, {"reference"}, {"variant's"}});
    for (const FieldDifference& d : study.differences) {
      fields.add_row({d.cell, code(d.field), d.base, d.candidate});
    }
    text += "\nNot comparable:\n\n" + fields.text();
  }
  text += list("Seeds that the other side lacks", study.unpaired);
  text += list("Runs without a result", study.without_result);
  text += list("Left out", study.notes);
  return text + list("To repeat the first seed of each", commands);
}

}  // namespace

std::string quality_markdown(const QualityStudy& study) {
  return head(study) + gates(study) + ranges(study) + steps(study) + power(study) + others(study) +
         timesteps(study) + distances_markdown(study) + sheets(study) + seeds(study) + runs(study);
}

std::string quality_line(const QualityStudy& study) {
  return fmt::format("quality: {}: {}", verdict_name(study.verdict), counts(study));
}

}  // namespace noisemark::reports
