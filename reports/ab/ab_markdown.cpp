#include "reports/ab/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/base/sha256.h"
#include "reports/base/statistics.h"

namespace noisemark::reports {
namespace {

std::string ratio_text(double ratio) {
  return fmt::format("{:.4f}", ratio);
}

/// "A makes 100.4 images/s and B 101.2 images/s; B / A is 1.0080 ...", where both were measured.
std::string speed_words(const Comparison& comparison) {
  std::string text;
  for (const StochasticRow& row : comparison.stochastic) {
    if (!row.base || !row.candidate || !row.ratio) continue;
    text += fmt::format(
        "A makes {} and B {}; B / A is {}{}. ", format_quantity(*row.base, row.unit),
        format_quantity(*row.candidate, row.unit), ratio_text(*row.ratio),
        row.ratio_ci95 ? fmt::format(" (95 %: {} to {})", ratio_text(row.ratio_ci95->low),
                                     ratio_text(row.ratio_ci95->high))
                       : "");
  }
  return text;
}

std::string head(const AbRecord& record, const AbVerdict& verdict) {
  const Comparison& comparison = verdict.comparison;
  return fmt::format(
      "# {}: {}, A to B\n\n{}There were {} of live processes, and this is {} of two looks. Each "
      "look may give a false alarm with a probability of at most {}, its share of alpha. {}.\n{}",
      capitals(verdict_name(comparison.verdict)), plain(record.a.benchmark),
      speed_words(comparison), format_counted(verdict.judged_pairs, "pair"),
      verdict.extended ? "the second" : "the first", format_number(comparison.alpha),
      exit_words(comparison), bullets(comparison.reasons));
}

std::string builds(const AbRecord& record, const Comparison& comparison) {
  MarkdownTable sides({{"side"}, {"build"}, {"commit"}, {"program's SHA-256"}});
  for (const auto& [name, build] : {std::pair("A", &record.a), std::pair("B", &record.b)}) {
    sides.add_row({name, build->name, text_of(build->about, "commit"),
                   shown_digits(text_of(build->about, "binary_sha256"))});
  }
  std::string text = "\n## Builds\n\n" + sides.text();
  if (comparison.differences.empty()) {
    text += "\nBoth did the same work: no field of the identity differs.\n";
  } else {
    MarkdownTable fields({{"field"}, {"A"}, {"B"}});
    for (const FieldDifference& field : comparison.differences) {
      fields.add_row({code(field.field), field.base, field.candidate});
    }
    text += "\nNot the same work:\n\n" + fields.text();
  }
  return text;
}

/// Software and flags: what a reader would look for first.
std::string other_differences(const AbRecord& record) {
  std::set<std::string> names;
  for (const AbBuild* build : {&record.a, &record.b}) {
    for (const auto& [name, value] : build->about) {
      if (name.find('.') != std::string::npos) names.insert(name);
    }
  }
  MarkdownTable table({{"may differ, and does"}, {"A"}, {"B"}});
  for (const std::string& name : names) {
    const std::string a = text_of(record.a.about, name);
    const std::string b = text_of(record.b.about, name);
    if (a != b) table.add_row({code(name), a, b});
  }
  return table.empty() ? "" : fmt::format("\n{}", table.text());
}

std::string gate(const Comparison& comparison) {
  MarkdownTable table({{"metric"},
                       {"verdict"},
                       {"B / A", Align::kRight},
                       {"95 %", Align::kRight},
                       {"A", Align::kRight},
                       {"B", Align::kRight},
                       {"p", Align::kRight},
                       {"margin", Align::kRight},
                       {"why", Align::kLeft, Fold::kIfEmpty}});
  for (const StochasticRow& row : comparison.stochastic) {
    table.add_row({row.metric, verdict_cell(row.verdict), row.ratio ? ratio_text(*row.ratio) : "",
                   row.ratio_ci95
                       ? fmt::format("{:.4f} to {:.4f}", row.ratio_ci95->low, row.ratio_ci95->high)
                       : "",
                   quantity_cell(row.base, row.unit), quantity_cell(row.candidate, row.unit),
                   format_p_value(row.p), format_percent(row.margin_frac), row.words});
  }
  if (table.empty()) return "\n## Gate\n\nIt could not be applied.\n";
  return fmt::format(
      "\n## Gate\n\n{}\nB / A is by Hodges and Lehmann over pairs of processes, with a bootstrap "
      "interval ({} resamples, seed {}). p is that of the signed-rank test of \"B is not slower\". "
      "Worse by x % means x % more time per image; the margin is in the same measure.\n",
      table.text(), comparison.resamples, comparison.seed);
}

std::string pairs(const AbRecord& record, const AbVerdict& verdict) {
  MarkdownTable table({{"pair", Align::kRight},
                       {"first"},
                       {"blocks", Align::kRight},
                       {"A, ms per step", Align::kRight},
                       {"B, ms per step", Align::kRight},
                       {"B / A, images/s", Align::kRight},
                       {"spread of its blocks", Align::kRight}});
  for (size_t i = 0; i < verdict.pairs.size(); ++i) {
    const AbPairFigure& figure = verdict.pairs[i];
    table.add_row({std::to_string(i + 1), std::string(ab_side_name(figure.first)),
                   std::to_string(figure.blocks), format_ms(figure.a_step_s),
                   format_ms(figure.b_step_s), ratio_text(std::exp(-figure.worsening)),
                   figure.blocks > 1 ? format_percent(std::expm1(figure.spread)) : ""});
  }
  if (table.empty()) return "\n## Pairs\n\nNone was made.\n";
  return fmt::format(
      "\n## Pairs\n\n{}\nA turn is {} steps, a block four turns, ABBA or BAAB; {} steps of each "
      "process before them count for nothing but the losses. Times and ratios are medians.\n",
      table.text(), record.plan.turn_steps, record.plan.warmup_steps);
}

std::string exact_text(const std::optional<double>& value, const std::string& digest) {
  if (!digest.empty()) return shown_digits(digest);
  return value ? format_count(static_cast<int64_t>(*value)) : std::string(kMissing);
}

std::string without_noise(const Comparison& comparison) {
  MarkdownTable table(
      {{"figure"}, {"A", Align::kRight}, {"B", Align::kRight}, {"verdict"}, {"why"}});
  int64_t equal = 0;
  for (const ExactRow& row : comparison.exact) {
    if (row.by_owner() && row.verdict == CompareVerdict::kEquivalent) {
      ++equal;
      continue;
    }
    table.add_row({row.metric, exact_text(row.base, row.base_digest),
                   exact_text(row.candidate, row.candidate_digest), verdict_cell(row.verdict),
                   row.words});
  }
  std::string text = "\n## Without noise\n\n";
  text += table.empty() ? "Nothing was compared.\n" : table.text();
  if (equal > 0)
    text += fmt::format("\nEqual bytes by owner are not shown; there are {}.\n", equal);
  return text;
}

std::string noise(const AbVerdict& verdict) {
  const Comparison& comparison = verdict.comparison;
  std::string text;
  std::vector<double> worsening;
  for (int64_t i = 0; i < verdict.judged_pairs; ++i) {
    worsening.push_back(verdict.pairs[static_cast<size_t>(i)].worsening);
  }
  if (worsening.size() > 1) {
    text += fmt::format("The standard deviation between pairs is {}.\n",
                        format_percent(std::expm1(standard_deviation(worsening))));
  }
  for (const StochasticRow& row : comparison.stochastic) {
    if (row.detectable_frac) {
      text += fmt::format("The smallest detectable difference is {}.\n",
                          format_percent(*row.detectable_frac));
    }
    text += row.noise_floor_frac > 0
                ? fmt::format("The calibrated noise floor is {}.\n",
                              format_percent(row.noise_floor_frac))
                : std::string("The noise floor is not calibrated (noisemark calibrate).\n");
  }
  return fmt::format("\n## Noise\n{}{}{}", text.empty() ? "" : "\n", text,
                     bullets(comparison.notes));
}

std::string more_pairs(const AbRecord& record, const StochasticRow& row) {
  if (row.verdict != CompareVerdict::kInconclusive) return "";
  if (row.pairs < record.plan.pairs) return "Let it run to its end.\n";
  if (!row.pairs_needed) {
    return "The difference lies so near the margin that thousands of pairs would be needed.\n";
  }
  // An extension was inconclusive too, so a first look of as many pairs is the next thing to try.
  const int64_t pairs = std::max(*row.pairs_needed, row.pairs + 1);
  const double seconds =
      record.plan.seconds * static_cast<double>(pairs) / static_cast<double>(record.plan.pairs);
  return fmt::format("Repeat with --pairs {} --seconds {:.0f}.\n", pairs, std::ceil(seconds));
}

std::string next(const AbRecord& record, const Comparison& comparison) {
  switch (comparison.verdict) {
    case CompareVerdict::kQualityFail:
    case CompareVerdict::kRegression:
      return "The regression is proven; more pairs will not change it. Look for its cause among "
             "the commits from A to B, for example with `noisemark profile` of both. Where B is "
             "meant to compute other numbers, repeat with --other-losses.\n";
    case CompareVerdict::kNotComparable:
      return "Give both builds the same definition, settings and data.\n";
    case CompareVerdict::kInvalidClocks:
      return "Cool or power the device better, or lock its clocks (`noisemark doctor`), and "
             "repeat.\n";
    case CompareVerdict::kIncomplete:
      return "Find out why B no longer measures what A did.\n";
    case CompareVerdict::kCalibrationNeeded:
      return "Make the machine quieter (`noisemark doctor`) and calibrate it again (`noisemark "
             "calibrate`).\n";
    case CompareVerdict::kInconclusive: {
      std::string text;
      for (const StochasticRow& row : comparison.stochastic) text += more_pairs(record, row);
      if (text.empty()) text = "Find out why a build does not repeat its own losses.\n";
      return text;
    }
    default:
      return "There is nothing to do.\n";
  }
}

}  // namespace

std::string ab_markdown(const AbRecord& record, const AbVerdict& verdict) {
  const Comparison& comparison = verdict.comparison;
  return finished_page(head(record, verdict) + builds(record, comparison) +
                       other_differences(record) + gate(comparison) + pairs(record, verdict) +
                       without_noise(comparison) + noise(verdict) + "\n## Next\n\n" +
                       next(record, comparison) + std::string(kGlossaryLine));
}

}  // namespace noisemark::reports
