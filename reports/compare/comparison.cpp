#include "reports/compare/comparison.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <stdexcept>

#include "reports/base/document.h"
#include "reports/base/json_writer.h"
#include "reports/base/markdown.h"
#include "reports/compare/comparison_fields.h"

namespace noisemark::reports {
namespace {

bool is_let_pass(CompareVerdict verdict, Inconclusive inconclusive) {
  return verdict == CompareVerdict::kInconclusive && inconclusive == Inconclusive::kWarns;
}

}  // namespace

std::string_view verdict_name(CompareVerdict verdict) {
  return json::name_of(verdict);
}

std::string verdict_cell(CompareVerdict verdict) {
  return verdict_cell(verdict_name(verdict), passes(verdict));
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
    case CompareVerdict::kIncomplete:
      return ExitCode::kNotComparable;
    case CompareVerdict::kQualityFail:
    case CompareVerdict::kRegression:
      return ExitCode::kFailed;
  }
  throw std::logic_error("exit_code_of: not a verdict");
}

bool passes(CompareVerdict verdict) {
  return exit_code_of(verdict) == ExitCode::kPass;
}

void Comparison::find(CompareVerdict found, const std::string& reason) {
  verdict = std::max(verdict, found);
  if (!passes(found)) reasons.push_back(reason);
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
  return fmt::format("The exit code is {}{}{}", static_cast<int>(exit_code_of(comparison)),
                     why.empty() ? "" : ": ", why);
}

std::string comparison_json(const Comparison& comparison) {
  return document_text(json::kComparisonDocument, json::tree_of(comparison));
}

}  // namespace noisemark::reports
