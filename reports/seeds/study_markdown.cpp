#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/base/sha256.h"
#include "reports/seeds/distances.h"
#include "reports/seeds/study.h"

namespace noisemark::reports {
namespace {

using Row = std::vector<std::string>;
using Columns = std::vector<MarkdownTable::Column>;

/// The verdict in a table.
std::string verdict_cell(QualityVerdict verdict) {
  return reports::verdict_cell(verdict_name(verdict), verdict == QualityVerdict::kPass);
}

std::string difference_cell(const QualityRow& row) {
  return row.difference ? difference_text(row, *row.difference) : std::string(kMissing);
}

std::string interval_cell(const QualityRow& row) {
  return row.interval ? interval_text(row, *row.interval) : std::string(kMissing);
}

MarkdownTable::Column folding(const char* title) {
  return {title, Align::kLeft, Fold::kIfAlike};
}

MarkdownTable::Column why_column(const char* title) {
  return {title, Align::kLeft, Fold::kIfEmpty};
}

/// The columns that name a row, before those of its table.
Columns named_columns(const Columns& more) {
  return joined({folding("benchmark"), {"variant"}, folding("measure")}, more);
}

Columns mean_columns() {
  return {{"BASE", Align::kRight}, {"variant's", Align::kRight}};
}

Row mean_cells(const QualityRow& row) {
  return {quantity_cell(row.reference_mean, row.unit), quantity_cell(row.candidate_mean, row.unit)};
}

/// Every table of differences begins with these columns.
Columns row_columns(const Columns& more) {
  return joined(named_columns({{"verdict", Align::kLeft, Fold::kIfEmpty},
                               {"difference", Align::kRight},
                               {"interval", Align::kRight}}),
                more);
}

Row row_cells(const QualityRow& row, const Row& more) {
  return joined(
      {row.benchmark, row.variant, measure_text(row), row.verdict ? verdict_cell(*row.verdict) : "",
       difference_cell(row), interval_cell(row)},
      more);
}

/// "7 PASS, 1 FAIL"; empty where no row has a verdict.
template <typename Row>
std::string counts_of(const std::vector<Row>& rows) {
  std::map<QualityVerdict, int64_t> verdicts;
  for (const Row& row : rows) {
    if (const std::optional<QualityVerdict> verdict = row.verdict) ++verdicts[*verdict];
  }
  std::vector<std::string> parts;
  for (const auto& [verdict, count] : verdicts) {
    parts.push_back(fmt::format("{} {}", count, verdict_name(verdict)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// "Gates: 7 PASS. Certificates: 7 PASS", by the tables of the page.
std::string counts(const QualityStudy& study) {
  const std::string gates = counts_of(study.rows);
  std::string text = "Gates: " + (gates.empty() ? "none could be applied" : gates);
  for (const auto& [table, verdicts] : {std::pair("Ranges", counts_of(study.ranges)),
                                        std::pair("Certificates", counts_of(study.steps))}) {
    if (!verdicts.empty()) text += fmt::format(". {}: {}", table, verdicts);
  }
  return text;
}

std::string benchmarks(const QualityStudy& study) {
  std::set<std::string> names;
  for (const VariantRuns& variant : study.variants) names.insert(plain(variant.benchmark));
  return fmt::format("{}", fmt::join(names, "; "));
}

std::string explained(const std::string& remark) {
  return plain(remark) +
         (remark == kUnofficialRemark ? " (not the files that were published)" : "");
}

/// The reader must know before the verdict that it is of another work than the name says.
std::string not_locked(const QualityStudy& study) {
  std::set<std::string> lines;
  for (const VariantRuns& variant : study.variants) {
    for (const std::string& remark : variant.remarks) {
      lines.insert(fmt::format("- {}: {}\n", plain(variant.benchmark), explained(remark)));
    }
  }
  if (lines.empty()) return "";
  return fmt::format("\nNot the locked benchmark:\n\n{}", fmt::join(lines, ""));
}

std::string head(const QualityStudy& study) {
  const bool let_pass = exit_code_of(study) != exit_code_of(study.verdict);
  std::string text = fmt::format(
      "# {}: quality of {}\n\n{}. The exit code is {}{}.\n", verdict_name(study.verdict),
      benchmarks(study), counts(study), static_cast<int>(exit_code_of(study)),
      let_pass ? ", for what is inconclusive was let pass (--inconclusive=warn)" : "");
  if (!study.rows.empty()) {
    text +=
        "\nEach variant is compared with BASE, runs of the same seeds: one that rounds gradients "
        "(`--reduce`) with the same variant without that, any other under a memory mode with the "
        "same variant under `none`, and the rest with `none-plain-fp32`.\n";
  }
  return text + bullets(study.reasons) + not_locked(study);
}

std::string_view next_words(QualityVerdict verdict, const Looks& looks) {
  switch (verdict) {
    case QualityVerdict::kPass:
      return "";
    case QualityVerdict::kInconclusive:
      return none_is_left(looks)
                 ? "INCONCLUSIVE, and no look is left: judge new seeds (--seed) in another folder."
                 : "INCONCLUSIVE: if a reason asks for more seeds, repeat the runs' command with a "
                   "larger --seeds and --resume, then judge again. A lossy mode that rounded "
                   "nothing needs longer runs, not more seeds.";
    case QualityVerdict::kFail:
      return "FAIL: more seeds will not change it; the rows say what failed.";
    case QualityVerdict::kNotComparable:
      return "NOT COMPARABLE: run all variants on one machine with the same software, data and "
             "settings.";
    case QualityVerdict::kBaselineNeeded:
      return "BASELINE NEEDED: run the same seeds under `--mode none` too.";
  }
  return "";
}

/// Says what to do, a line for each verdict of the page that asks for something.
std::string next(const QualityStudy& study) {
  std::set<QualityVerdict> verdicts{study.verdict};
  for (const QualityRow& row : study.rows) {
    if (row.gated) verdicts.insert(row.verdict.value_or(study.verdict));
  }
  for (const StepRow& row : study.steps) verdicts.insert(row.verdict.value_or(study.verdict));
  for (const RangeRow& row : study.ranges) verdicts.insert(row.verdict);
  std::string text;
  for (const QualityVerdict verdict : verdicts) {
    const std::string_view words = next_words(verdict, study.looks);
    if (!words.empty()) text += fmt::format("- {}\n", words);
  }
  return text.empty() ? "" : "\n## Next\n\n" + text;
}

/// Says which look at the runs of this study it is: seeds may be added as long as one is left.
std::string which_look(const QualityStudy& study) {
  const Looks& looks = study.looks;
  const std::string share =
      looks.declared == 1 ? "" : ", each of which has its share of " + format_number(study.alpha);
  const std::string which =
      none_is_left(looks) ? "No look is left" : fmt::format("This is look {}", looks.number);
  const char* halves = study.asked_gates.empty() || study.asked_ranges.empty()
                           ? ""
                           : "; gates and ranges have half of it each";
  return fmt::format("{} of {} declared{}{}", which, looks.declared, share, halves);
}

std::string how_judged(const QualityStudy& study) {
  const double alpha =
      alpha_of_a_family(study.alpha, study.looks.declared, study.asked_gates, study.asked_ranges);
  return fmt::format(
      "\nA difference says how much worse the variant is than BASE, over the seeds that both have; "
      "a negative one is better. For a ratio it is the geometric mean. An interval has {:g} % "
      "confidence, by a t test over seeds. p is that of two one-sided tests (TOST), corrected by "
      "Holm for {}; PASS needs at most {}. {}.\n",
      100 * (1 - 2 * alpha), format_counted(study.tests, "test"), format_number(alpha),
      which_look(study));
}

std::string gates(const QualityStudy& study) {
  MarkdownTable table(row_columns({{"margin", Align::kRight, Fold::kIfAlike},
                                   {"number of seeds", Align::kRight, Fold::kIfAlike},
                                   {"p (Holm)", Align::kRight},
                                   why_column("why")}));
  for (const QualityRow& row : study.rows) {
    if (!row.gated) continue;
    table.add_row(row_cells(
        row, {fmt::format("{} ({})", margin_text(row), row.margin_from),
              std::to_string(row.seeds.size()), format_p_value(row.p_adjusted), row.words}));
  }
  if (table.empty()) return "\n## Gates\n\nNone could be applied.\n";
  return "\n## Gates\n\n" + table.text() + how_judged(study);
}

std::string ranges(const QualityStudy& study) {
  if (study.ranges.empty()) return "";
  MarkdownTable table(named_columns({{"verdict"},
                                     {"mean", Align::kRight},
                                     {"interval", Align::kRight},
                                     {"range", Align::kRight},
                                     {"number of seeds", Align::kRight, Fold::kIfAlike},
                                     why_column("why")}));
  for (const RangeRow& row : study.ranges) {
    table.add_row({row.benchmark, row.variant, row.measure, verdict_cell(row.verdict),
                   quantity_cell(row.mean, row.unit),
                   row.interval ? fmt::format("{} to {}", format_number(row.interval->low),
                                              format_number(row.interval->high))
                                : std::string(kMissing),
                   fmt::format("{} to {}", format_number(row.low), format_number(row.high)),
                   std::to_string(row.seeds), row.words});
  }
  return fmt::format(
      "\n## Ranges\n\n{}\nAn interval is that of the mean over seeds, by the bootstrap ({} "
      "resamples, seed {}) and Student's t together, with alpha shared by Bonferroni.\n",
      table.text(), study.resamples, study.seed);
}

std::string steps(const QualityStudy& study) {
  if (study.steps.empty()) return "";
  MarkdownTable table({folding("benchmark"),
                       {"variant"},
                       {"verdict"},
                       {"gradient's error", Align::kRight},
                       {"at most", Align::kRight},
                       folding("tier"),
                       {"number of seeds", Align::kRight, Fold::kIfAlike},
                       why_column("why")});
  for (const StepRow& row : study.steps) {
    table.add_row(
        {row.benchmark, row.variant, row.verdict ? verdict_cell(*row.verdict) : "not judged",
         row.value ? format_number(*row.value) : "", row.bound ? format_number(*row.bound) : "",
         row.tier == 0 ? "0, bits" : "1, gradient", std::to_string(row.seeds), row.words});
  }
  return "\n## Certificates\n\n" + table.text();
}

std::string sheets(const QualityStudy& study) {
  std::string text = study.sheets.empty() ? "" : "\n## Samples\n";
  for (const std::string& sheet : study.sheets) {
    text += fmt::format("\n{}:\n\n{}\n", code(sheet), picture("samples", sheet));
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

/// Says where the seeds that are needed have to come from.
std::string which_seeds(const QualityStudy& study) {
  const bool needed = std::any_of(study.rows.begin(), study.rows.end(), [](const QualityRow& row) {
    return row.gated && row.seeds_needed.has_value();
  });
  if (!needed || study.looks.number < study.looks.declared) return "";
  return " No look is left for seeds added to these: as many new ones (--seed), in another folder.";
}

std::string power(const QualityStudy& study) {
  const Columns columns = {{"smallest detectable difference", Align::kRight},
                           {"seeds needed", Align::kRight, Fold::kIfEmpty},
                           {"correlation", Align::kRight},
                           {"test"},
                           {"degrees of freedom", Align::kRight}};
  constexpr const char* kSeedsNeeded =
      " The seeds needed would decide with that power, were the difference and the spread what "
      "these seeds say.";
  MarkdownTable table(joined(named_columns(columns), mean_columns()));
  bool needed = false;
  for (const QualityRow& row : study.rows) {
    if (!row.gated) continue;
    needed = needed || !needed_cell(row).empty();
    const Row cells = {
        row.benchmark,
        row.variant,
        measure_text(row),
        row.detectable ? size_text(row, *row.detectable) : std::string(kMissing),
        needed_cell(row),
        row.correlation ? fmt::format("{:+.3f}", *row.correlation) : std::string(kMissing),
        row.design ? std::string(design_name(*row.design)) : std::string(kMissing),
        row.degrees ? fmt::format("{:.3g}", *row.degrees) : ""};
    table.add_row(joined(cells, mean_cells(row)));
  }
  if (table.empty()) return "";
  return fmt::format(
      "\n## What these seeds can show\n\n{}\nThe correlation is that of both sides across seeds. "
      "For one from 0 to 0.5 the test is Welch's, else the paired one; this rule is fixed in "
      "advance. The smallest detectable difference is that with power {}, at the strictest step of "
      "Holm.{} Values of both sides are means over seeds.{}\n",
      table.text(), format_number(study.power), needed ? kSeedsNeeded : "", which_seeds(study));
}

using Chooses = std::function<bool(const QualityRow&)>;

std::string described(const QualityStudy& study, const std::string& heading,
                      const std::string& words, const Chooses& chooses) {
  const Columns columns = {{"number of seeds", Align::kRight, Fold::kIfAlike},
                           why_column("why not all")};
  MarkdownTable table(row_columns(joined(mean_columns(), columns)));
  for (const QualityRow& row : study.rows) {
    if (!chooses(row)) continue;
    const Row cells = {std::to_string(row.seeds.size()), row.words};
    table.add_row(row_cells(row, joined(mean_cells(row), cells)));
  }
  if (table.empty()) return "";
  return fmt::format("\n## {}\n\n{}\n{}\n", heading, table.text(), words);
}

std::string others(const QualityStudy& study) {
  return described(
      study, "Other figures",
      "These figures decide nothing; their intervals are not adjusted for their number.",
      [](const QualityRow& row) { return !row.gated && !row.timestep; });
}

std::string timesteps(const QualityStudy& study) {
  return described(study, "By timestep",
                   "The loss is unweighted. The training weight of a timestep is the same on both "
                   "sides, so weighted losses have these ratios too. These losses decide nothing.",
                   [](const QualityRow& row) { return row.timestep.has_value(); });
}

std::string seeds(const QualityStudy& study) {
  MarkdownTable table(named_columns({{"seed", Align::kRight},
                                     {"BASE", Align::kRight},
                                     {"variant's", Align::kRight},
                                     {"difference", Align::kRight}}));
  for (const QualityRow& row : study.rows) {
    if (!row.gated) continue;
    for (const SeedPair& pair : row.seeds) {
      table.add_row({row.benchmark, row.variant, measure_text(row), std::to_string(pair.seed),
                     quantity_cell(pair.reference, row.unit),
                     quantity_cell(pair.candidate, row.unit),
                     difference_text(row, pair.worsening)});
    }
  }
  return table.empty() ? "" : "\n## Seeds\n\n" + table.text();
}

std::string runs(const QualityStudy& study) {
  MarkdownTable table({folding("benchmark"), {"variant"}, {"seeds"}, {"runs"}, {"commits"}});
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
    MarkdownTable fields({{"variant"}, {"field"}, {"BASE"}, {"variant's"}});
    for (const FieldDifference& d : study.differences) {
      fields.add_row({d.cell, code(d.field), d.base, d.candidate});
    }
    text += "\nNot comparable:\n\n" + fields.text();
  }
  text += markdown_list("Seeds that the other side lacks", study.unpaired);
  text += markdown_list("Runs without a result", study.without_result);
  text += markdown_list("Left out", study.notes);
  return text + markdown_list("To repeat the first seed of each", commands);
}

std::string shown(const std::string& sha256) {
  return sha256.empty() ? "not known" : code(shown_digits(sha256));
}

std::string or_unknown(const std::string& text) {
  return text.empty() ? "not known" : text;
}

std::string extractor_cell(const DistanceOrigin& one) {
  return one.extractor.empty() ? "none" : one.extractor + " " + shown(one.checksum);
}

std::string resize_cell(const DistanceOrigin& one) {
  return one.resize_asserted ? one.resize + " (of one side as the user says)" : one.resize;
}

std::string what_was_measured(const QualityStudy& study) {
  MarkdownTable table({{"metric"},
                       {"distance"},
                       {"extractor"},
                       {"resize"},
                       {"features", Align::kRight},
                       {"samples", Align::kRight},
                       {"reference"},
                       {"images of it", Align::kRight},
                       {"SHA-256 of its moments"}});
  for (const DistanceOrigin& one : study.distances) {
    table.add_row(
        {one.metric, one.name, extractor_cell(one), resize_cell(one), std::to_string(one.dimension),
         std::to_string(one.samples), one.reference,
         one.reference_samples ? std::to_string(*one.reference_samples) : std::string(kMissing),
         shown(one.reference_sha256)});
  }
  return table.text();
}

std::string draws_cell(const DistanceOrigin& one) {
  if (!one.kernel) return "all samples";
  const KernelOrigin& kernel = *one.kernel;
  return fmt::format("{} subsets of {}, drawn by {}{}", kernel.subsets, kernel.subset_size,
                     kernel.draws.empty() ? "an unknown generator" : kernel.draws,
                     kernel.seed ? fmt::format(", seed {}", *kernel.seed) : "");
}

std::string how_it_was_drawn(const QualityStudy& study) {
  MarkdownTable table({{"metric"},
                       {"sampler"},
                       {"weights"},
                       {"noise"},
                       {"precision"},
                       {"definition"},
                       {"computed on"}});
  for (const DistanceOrigin& one : study.distances) {
    table.add_row({one.metric, or_unknown(one.sampler),
                   one.weights.empty() ? "not known" : weights_words(one.weights),
                   or_unknown(one.noise), or_unknown(one.precision), or_unknown(one.definition),
                   draws_cell(one)});
  }
  return table.text();
}

std::string error_cell(const DistanceValue& one) {
  if (one.standard_error) return "± " + format_number(*one.standard_error);
  if (!one.interval) return "";
  return fmt::format("{} to {}", format_number(one.interval->low),
                     format_number(one.interval->high));
}

std::string values(const QualityStudy& study) {
  MarkdownTable table({folding("benchmark"),
                       {"variant"},
                       {"seed", Align::kRight},
                       {"metric"},
                       {"value", Align::kRight},
                       {"uncertainty", Align::kRight},
                       {"samples", Align::kRight},
                       why_column("why not counted")});
  for (const DistanceValue& one : study.distance_values) {
    table.add_row({one.benchmark, one.variant, std::to_string(one.seed), one.metric,
                   one.value ? format_number(*one.value) : std::string(kMissing), error_cell(one),
                   std::to_string(one.samples), one.problem});
  }
  if (table.empty()) return "";
  return fmt::format(
      "\n{}\nAn uncertainty is a standard error, or the interval of other samples of the same "
      "weights. Seeds differ by more, so verdicts are on seeds alone.\n",
      table.text());
}

/// The section on distances: where each comes from, and what was measured of every run, with its
/// number of samples and its error. It is empty without distances.
std::string distances_markdown(const QualityStudy& study) {
  if (study.distances.empty()) return "";
  return fmt::format("\n## Distances\n\n{}\n{}{}", what_was_measured(study),
                     how_it_was_drawn(study), values(study));
}

}  // namespace

std::string quality_markdown(const QualityStudy& study) {
  return finished_page(head(study) + next(study) + gates(study) + ranges(study) + steps(study) +
                       power(study) + others(study) + timesteps(study) + distances_markdown(study) +
                       sheets(study) + seeds(study) + runs(study) + std::string(kGlossaryLine));
}

std::string quality_line(const QualityStudy& study) {
  return fmt::format("quality: {}. {}", verdict_name(study.verdict), counts(study));
}

}  // namespace noisemark::reports
