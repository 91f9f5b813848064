#include "reports/compare/comparison.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <stdexcept>

#include "reports/base/json.h"
#include "reports/compare/comparison_markdown.h"

namespace noisemark::reports {
namespace {

bool is_let_pass(CompareVerdict verdict, Inconclusive inconclusive) {
  return verdict == CompareVerdict::kInconclusive && inconclusive == Inconclusive::kWarns;
}

}  // namespace

std::string_view verdict_name(CompareVerdict verdict) {
  for (const auto& [known, name] : json::kNames<CompareVerdict>) {
    if (known == verdict) return name;
  }
  throw std::logic_error("verdict_name: not a verdict");
}

ExitCode exit_code_of(CompareVerdict verdict) {
  switch (verdict) {
    case CompareVerdict::kEquivalent:
    case CompareVerdict::kImproved:
    case CompareVerdict::kNotWorse:
      return ExitCode::kPass;
    case CompareVerdict::kSkipped:
      return ExitCode::kCannotRunHere;
    case CompareVerdict::kInconclusive:
    case CompareVerdict::kUnstable:
      return ExitCode::kInconclusive;
    case CompareVerdict::kCalibrationNeeded:
      return ExitCode::kBaselineNeeded;
    case CompareVerdict::kTooFewPairs:
      return ExitCode::kBadInput;
    case CompareVerdict::kRecipeMismatch:
    case CompareVerdict::kNotComparable:
    case CompareVerdict::kInvalidClocks:
    case CompareVerdict::kInfraError:
      return ExitCode::kNotComparable;
    case CompareVerdict::kQualityFail:
    case CompareVerdict::kRegression:
      return ExitCode::kFailed;
  }
  throw std::logic_error("exit_code_of: not a verdict");
}

bool Comparison::any_stored() const {
  return std::any_of(stochastic.begin(), stochastic.end(),
                     [](const StochasticRow& row) { return row.gated && row.stored; });
}

std::string verdict_words(CompareVerdict verdict, Inconclusive inconclusive) {
  return std::string(verdict_name(verdict)) +
         (is_let_pass(verdict, inconclusive) ? ", let pass by --inconclusive=warn" : "");
}

ExitCode exit_code_of(const Comparison& comparison) {
  return is_let_pass(comparison.verdict, comparison.inconclusive)
             ? ExitCode::kPass
             : exit_code_of(comparison.verdict);
}

std::string let_pass(const Comparison& comparison) {
  return is_let_pass(comparison.verdict, comparison.inconclusive)
             ? verdict_words(comparison.verdict, comparison.inconclusive)
             : "";
}

std::string exit_words(const Comparison& comparison) {
  const std::string why = let_pass(comparison);
  return fmt::format("Exit code {}{}{}", static_cast<int>(exit_code_of(comparison)),
                     why.empty() ? "" : ": ", why);
}

namespace {

using Json = nlohmann::ordered_json;

std::string_view direction_name(Direction direction) {
  if (direction == Direction::kNeutral) return "neutral";
  return direction == Direction::kLower ? "lower" : "higher";
}

Json json_of(const SideSummary& side) {
  return {{"name", side.name},
          {"runs", side.runs},
          {"commits", side.commits},
          {"repeat_commands", side.repeat_commands}};
}

Json json_of(const FieldDifference& d) {
  return {{"cell", d.cell}, {"field", d.field}, {"base", d.base}, {"candidate", d.candidate}};
}

Json json_of(const ExactRow& row) {
  return {{"cell", row.cell},
          {"metric", row.metric},
          {"unit", row.unit},
          {"base", or_null(row.base)},
          {"candidate", or_null(row.candidate)},
          {"base_digest", row.base_digest},
          {"candidate_digest", row.candidate_digest},
          {"verdict", verdict_name(row.verdict)},
          {"words", row.words}};
}

Json json_of(const StochasticRow& row) {
  return {{"cell", row.cell},
          {"metric", row.metric},
          {"unit", row.unit},
          {"direction", direction_name(row.direction)},
          {"gated", row.gated},
          {"pairs", row.pairs},
          {"base", or_null(row.base)},
          {"candidate", or_null(row.candidate)},
          {"ratio", or_null(row.ratio)},
          {"ratio_ci95", or_null(row.ratio_ci95)},
          {"p", or_null(row.p)},
          {"p_adjusted", or_null(row.p_adjusted)},
          {"margin_frac", row.margin_frac},
          {"noise_floor_frac", row.noise_floor_frac},
          {"session_deviation", row.session_deviation},
          {"stored", row.stored},
          {"conflict", row.conflict},
          {"detectable_frac", or_null(row.detectable_frac)},
          {"pairs_needed", or_null(row.pairs_needed)},
          {"verdict", row.judged() ? Json(verdict_name(row.verdict)) : Json(nullptr)},
          {"words", row.words}};
}

template <typename T>
Json rows(const std::vector<T>& items) {
  Json all = Json::array();
  for (const T& item : items) all.push_back(json_of(item));
  return all;
}

}  // namespace

std::string comparison_json(const Comparison& c) {
  const Json json = {
      {"schema", {{"name", kComparisonSchemaName}, {"version", kComparisonSchemaVersion}}},
      {"verdict", verdict_name(c.verdict)},
      {"exit_code", static_cast<int>(exit_code_of(c))},
      {"let_pass", let_pass(c)},
      {"reasons", c.reasons},
      {"base", json_of(c.base)},
      {"candidate", json_of(c.candidate)},
      {"cells", c.cells},
      {"differences", rows(c.differences)},
      {"environment_differences", rows(c.environment)},
      {"only_base", c.only_base},
      {"only_candidate", c.only_candidate},
      {"unpaired", c.unpaired},
      {"without_result", c.without_result},
      {"exact", rows(c.exact)},
      {"stochastic", rows(c.stochastic)},
      {"notes", c.notes},
      {"next_step", next_step(c)},
      {"noise_left_out", c.noise_left_out},
      {"alpha", c.alpha},
      {"resamples", c.resamples},
      {"seed", c.seed}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace noisemark::reports
