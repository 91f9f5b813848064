#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "reports/base/fields.h"
#include "reports/compare/comparison.h"
#include "reports/result/result_fields.h"

/// The fields of comparison.json, in the order in which they are written.
namespace noisemark::reports::json {

inline constexpr Document kComparisonDocument{
    "noisemark.comparison", "Two sets of results, judged: base and candidate.", false};

/// A row of `exact`. In ab.json an ExactRow has no cell, and other keys.
struct CellRow : ExactRow {};

template <>
struct Fields<SideSummary> {
  static constexpr About kAbout{"SideSummary", "One of the two sets of results."};
  static constexpr std::tuple kAll{
      field("name", &SideSummary::name, "as given by the user"),
      field("runs", &SideSummary::runs, "number of runs"),
      field("commits", &SideSummary::commits, "sorted; \"+\" behind one: with changes"),
      field("repeat_commands", &SideSummary::repeat_commands, "commands that made the runs")};
};

template <>
struct Fields<FieldDifference> {
  static constexpr About kAbout{"FieldDifference", "A field in which runs differ."};
  static constexpr std::tuple kAll{
      field("cell", &FieldDifference::cell, "benchmark, mode, baseline and precision of the runs"),
      field("field", &FieldDifference::field, "\"identity.threads\""),
      field("base", &FieldDifference::base, "value in BASE"),
      field("candidate", &FieldDifference::candidate, "value in NEW")};
};

template <>
struct Fields<CellRow> {
  static constexpr About kAbout{"ExactRow", "A figure without noise, or a digest."};
  static constexpr std::tuple kAll{
      field<CellRow>("cell", &ExactRow::cell,
                     "benchmark, mode, baseline and precision of the runs"),
      field<CellRow>("metric", &ExactRow::metric, "name of the figure"),
      field<CellRow>("unit", &ExactRow::unit, "unit of the figure"),
      field<CellRow>("base", &ExactRow::base,
                     "figure of BASE; null for a digest, or where it is missing"),
      field<CellRow>("candidate", &ExactRow::candidate, "figure of NEW, in the same way"),
      field<CellRow>("base_digest", &ExactRow::base_digest,
                     "digest in BASE; empty where it is a figure"),
      field<CellRow>("candidate_digest", &ExactRow::candidate_digest,
                     "digest in NEW; empty where it is a figure"),
      field<CellRow>("verdict", &ExactRow::verdict, "judgement of the two values"),
      field<CellRow>("words", &ExactRow::words, "reason, when it is not equal")};
};

template <>
struct Fields<StochasticRow> {
  using Row = StochasticRow;
  static constexpr About kAbout{"StochasticRow", "A figure with noise, from pairs of runs."};
  static std::optional<CompareVerdict> verdict_of(const Row& row) {
    return row.judged() ? std::optional(row.verdict) : std::nullopt;
  }
  static constexpr std::tuple kAll{
      field("cell", &Row::cell, "benchmark, mode, baseline and precision of the runs"),
      field("metric", &Row::metric, "name of the figure"),
      field("unit", &Row::unit, "unit of the figure"),
      field("direction", &Row::direction, "good direction of the figure"),
      field("gated", &Row::gated, "true where it is judged"),
      field("pairs", &Row::pairs, "pairs of runs"),
      field("base", &Row::base, "median of BASE over the paired runs"),
      field("candidate", &Row::candidate, "median of NEW over the paired runs"),
      field("ratio", &Row::ratio, "candidate / base: Hodges-Lehmann over the pairs"),
      field("ratio_ci95", &Row::ratio_ci95, "interval of 95 % confidence"),
      field("p", &Row::p, "one-sided, of \"not worse\", of a gated row; else two-sided"),
      field("p_adjusted", &Row::p_adjusted,
            "by Holm among the gated rows, else by Benjamini and Hochberg"),
      field("margin_frac", &Row::margin_frac, "margin in force"),
      field("noise_floor_frac", &Row::noise_floor_frac, "calibrated; 0: not calibrated"),
      field("session_deviation", &Row::session_deviation,
            "calibrated, of logarithms; 0: not calibrated"),
      field("stored", &Row::stored, "true: the runs were not made in turns"),
      field("conflict", &Row::conflict, "true: units or directions differ"),
      field("detectable_frac", &Row::detectable_frac,
            "smallest difference that these pairs would show"),
      field("pairs_needed", &Row::pairs_needed, "pairs that would prove it either way"),
      computed("verdict", &Fields::verdict_of, "null: it is not judged"),
      field("words", &Row::words, "reason of the verdict")};
};

template <>
struct Fields<Comparison> {
  static constexpr About kAbout{"Comparison", ""};
  static int64_t exit_code(const Comparison& c) { return static_cast<int64_t>(exit_code_of(c)); }
  static std::vector<CellRow> rows(const Comparison& c) {
    std::vector<CellRow> rows;
    for (const ExactRow& row : c.exact) rows.push_back({row});
    return rows;
  }
  static constexpr std::tuple kAll{
      field("verdict", &Comparison::verdict, "the worst of all"),
      computed("exit_code", &Fields::exit_code, "exit code of the verdict"),
      computed("let_pass", &let_pass, "how an inconclusive verdict was let pass; else empty"),
      field("reasons", &Comparison::reasons, "a sentence for each finding that is not a pass"),
      field("base", &Comparison::base, "results that the others are compared with"),
      field("candidate", &Comparison::candidate, "results that are judged: NEW"),
      field("cells", &Comparison::cells, "cells that both sides have"),
      field("differences", &Comparison::differences, "fields that forbid a comparison"),
      field("environment_differences", &Comparison::environment,
            "fields that may explain a difference"),
      field("only_base", &Comparison::only_base, "cells"),
      field("only_candidate", &Comparison::only_candidate, "cells"),
      field("unpaired", &Comparison::unpaired, "runs without a partner"),
      field("without_result", &Comparison::without_result,
            "runs that were begun or planned and left no result"),
      computed("exact", &Fields::rows, "figures without noise, and digests"),
      field("stochastic", &Comparison::stochastic, "gated rows first"),
      field("notes", &Comparison::notes, "remarks on the runs"),
      computed("next_step", &next_step, "what to do next"),
      field("noise_left_out", &Comparison::noise_left_out,
            "true: figures without noise alone were asked for"),
      field("alpha", &Comparison::alpha, "level of the tests"),
      field("resamples", &Comparison::resamples, "resamples of an interval"),
      field("seed", &Comparison::seed, "seed of the resamples")};
};

}  // namespace noisemark::reports::json
