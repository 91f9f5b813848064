#include "reports/quality/quality.h"

#include <stdexcept>

namespace noisemark::reports {

std::string_view verdict_name(QualityVerdict verdict) {
  switch (verdict) {
    case QualityVerdict::kPass:
      return "PASS";
    case QualityVerdict::kInconclusive:
      return "INCONCLUSIVE";
    case QualityVerdict::kBaselineNeeded:
      return "BASELINE NEEDED";
    case QualityVerdict::kNotComparable:
      return "NOT COMPARABLE";
    case QualityVerdict::kFail:
      return "FAIL";
  }
  throw std::logic_error("verdict_name: not a verdict of quality");
}

ExitCode exit_code_of(QualityVerdict verdict) {
  switch (verdict) {
    case QualityVerdict::kPass:
      return ExitCode::kPass;
    case QualityVerdict::kInconclusive:
      return ExitCode::kInconclusive;
    case QualityVerdict::kBaselineNeeded:
      return ExitCode::kBaselineNeeded;
    case QualityVerdict::kNotComparable:
      return ExitCode::kNotComparable;
    case QualityVerdict::kFail:
      return ExitCode::kFailed;
  }
  throw std::logic_error("exit_code_of: not a verdict of quality");
}

ExitCode exit_code_of(const QualityStudy& study) {
  const bool inconclusive = study.verdict == QualityVerdict::kInconclusive;
  return inconclusive && study.inconclusive_passes ? ExitCode::kPass : exit_code_of(study.verdict);
}

std::string_view design_name(TestDesign design) {
  return design == TestDesign::kPaired ? "paired" : "Welch";
}

}  // namespace noisemark::reports
