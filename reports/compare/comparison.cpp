#include "reports/compare/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace noisemark::reports {
namespace {

bool is_let_pass(CompareVerdict verdict, Inconclusive inconclusive) {
  return verdict == CompareVerdict::kInconclusive && inconclusive == Inconclusive::kWarns;
}

}  // namespace

std::string_view verdict_name(CompareVerdict verdict) {
  switch (verdict) {
    case CompareVerdict::kEquivalent:
      return "equivalent";
    case CompareVerdict::kImproved:
      return "improved";
    case CompareVerdict::kNotWorse:
      return "not worse";
    case CompareVerdict::kSkipped:
      return "skipped";
    case CompareVerdict::kInconclusive:
      return "inconclusive";
    case CompareVerdict::kUnstable:
      return "unstable";
    case CompareVerdict::kCalibrationNeeded:
      return "calibration needed";
    case CompareVerdict::kTooFewPairs:
      return "too few pairs";
    case CompareVerdict::kRecipeMismatch:
      return "recipe mismatch";
    case CompareVerdict::kNotComparable:
      return "not comparable";
    case CompareVerdict::kInvalidClocks:
      return "invalid clocks";
    case CompareVerdict::kInfraError:
      return "infra error";
    case CompareVerdict::kQualityFail:
      return "QUALITY FAIL";
    case CompareVerdict::kRegression:
      return "REGRESSION";
  }
  throw std::logic_error("verdict_name: not a verdict");
}

std::optional<CompareVerdict> verdict_named(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(CompareVerdict::kRegression); ++i) {
    const auto verdict = static_cast<CompareVerdict>(i);
    if (verdict_name(verdict) == name) return verdict;
  }
  return std::nullopt;
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

}  // namespace noisemark::reports
