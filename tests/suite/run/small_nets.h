#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "memopt/modes/planned_mode.h"
#include "suite/run/passes/session.h"
#include "suite/run/passes/side_by_side.h"

/// Both U-Nets in small, trained by the real trainer in this process: a fraction of a second.
namespace noisemark::suite::test {

struct SmallTraining {
  std::string net;   ///< "lucid", "ho" or "ho-relu"
  std::string mode;  ///< kHalfBudget, or as on the command line
  std::string baseline = "plain";
  std::string precision = "fp32";
};
/// A budget of peak bytes halfway between keeping everything and the smallest that can be met.
inline constexpr const char* kHalfBudget = "budget:half";

/// The name in a failed test.
std::ostream& operator<<(std::ostream& to, const SmallTraining& training);
/// The same in letters, digits and underscores.
[[nodiscard]] std::string test_name(const SmallTraining& training);

/// Dropout, and two images of 16x16 a step.
[[nodiscard]] SessionOptions small_session(const SmallTraining& training);
/// The arguments that `noisemark run` adds to the benchmark "gmm16@cpu" or "gmm16-ho@cpu" for the
/// same.
[[nodiscard]] std::vector<std::string> small_sets(const std::string& net);

/// Trains as a run does for its certificate.
[[nodiscard]] SideBySide beside_none(const SmallTraining& training);

/// A training from perturbed weights, which hide no rounding, that went on for two steps after its
/// mode was steady.
struct FollowedPlan {
  memopt::PlannedModeReport report;
  std::shared_ptr<const memopt::TreatmentPlan> plan;  ///< is null where there is none
};
[[nodiscard]] FollowedPlan follow_plan(const SmallTraining& training);

/// Returns whether the plan makes a value again by calling the last of these operators, where that
/// reads what the one before it in the list made, and so on.
[[nodiscard]] bool makes_again(const memopt::TreatmentPlan& plan,
                               const std::vector<std::string_view>& chain);
/// The operators that the plan's recipes call, each once, for messages.
[[nodiscard]] std::string made_again(const memopt::TreatmentPlan& plan);

}  // namespace noisemark::suite::test
