#include "reports/compare/comparison.h"

#include <stdexcept>

namespace noisemark::reports {

std::string_view verdict_name(CompareVerdict verdict) {
  switch (verdict) {
    case CompareVerdict::kEquivalent:
      return "equivalent";
    case CompareVerdict::kImproved:
      return "improved";
    case CompareVerdict::kNotWorse:
      return "not worse";
    case CompareVerdict::kInconclusive:
      return "inconclusive";
    case CompareVerdict::kCalibrationNeeded:
      return "calibration needed";
    case CompareVerdict::kNotComparable:
      return "not comparable";
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
    case CompareVerdict::kInconclusive:
      return ExitCode::kInconclusive;
    case CompareVerdict::kCalibrationNeeded:
      return ExitCode::kBaselineNeeded;
    case CompareVerdict::kNotComparable:
      return ExitCode::kNotComparable;
    case CompareVerdict::kRegression:
      return ExitCode::kFailed;
  }
  throw std::logic_error("exit_code_of: not a verdict");
}

}  // namespace noisemark::reports
