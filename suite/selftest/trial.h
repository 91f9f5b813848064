#pragma once

#include <string>
#include <vector>

#include "reports/compare/comparison.h"

namespace noisemark::suite {

/// One question to the comparison.
struct Trial {
  std::string fault;  ///< in words; "none" for an untouched twin
  std::string into;   ///< what the fault is put into: "recorded rounds"
  std::string judge;  ///< metric whose row must say REGRESSION; empty: the comparison must pass
};

/// And its answer.
struct TrialOutcome {
  Trial trial;
  reports::Comparison comparison;
  std::vector<std::string> judged_by;  ///< metrics whose rows say REGRESSION, in the table's order
  bool caught = false;                 ///< the verdict is REGRESSION, and by trial.judge if any
  bool as_expected = false;            ///< caught, or passed where nothing was to be caught
};

[[nodiscard]] TrialOutcome answer(Trial trial, reports::Comparison comparison);

/// kPass when there are outcomes and all are as expected; else kFailed.
[[nodiscard]] ExitCode exit_code_of(const std::vector<TrialOutcome>& outcomes);

/// A verdict and a table, one row per outcome; below it, why what is not as expected is not.
[[nodiscard]] std::string trials_markdown(const std::vector<TrialOutcome>& outcomes);

}  // namespace noisemark::suite
