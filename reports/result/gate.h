#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/error.h"
#include "reports/result/result.h"

/// Absolute gates: a bound, a value, a verdict in words. Relative ones need a baseline and do not
/// exist here.
namespace noisemark::reports {

/// A gate as the definition declares it.
struct GateRule {
  std::string name;
  std::string metric;    ///< name in Result::metrics
  std::string relation;  ///< "at most", "at least" or "equals"
  double bound = 0;
  std::vector<std::string> precisions =
      {};  ///< those that the bound was calibrated for; empty: all
};

/// The trainer's knowledge about every loss and gradient it made.
struct Finiteness {
  bool finite = true;
  std::string first_bad;  ///< the first non-finite tensor and its step: "loss at step 12"
};

/// Returns the built-in gates first, those of README.md's table that apply to the run, then the
/// rules in their order. A rule whose metric is missing, empty or not finite fails and says why; so
/// does a certificate that is unavailable, and a mode that had no plan in a pass. budget_error
/// judges the gradient error of the certificate pass. Without a memory pass its gates are not
/// applied. In a custom run (Identity::custom) the rules are listed as not applied, and so is a
/// rule in a precision that it was not calibrated for; the built-in ones still apply. Throws
/// std::logic_error for a relation that is none of the three.
[[nodiscard]] std::vector<Gate> evaluate_gates(const Result& result,
                                               const std::vector<GateRule>& rules,
                                               const Finiteness& finiteness);

/// Gates whose verdict other judgements look at: that all of the training was finite, that a mode
/// had a plan in every pass, and that of gradient_error_rule().
inline constexpr std::string_view kFiniteLossGate = "finite_loss";
inline constexpr std::string_view kPlanGate = "plan";
inline constexpr std::string_view kGradientErrorGate = "gradient_error";

/// Returns whether the run has a gate of that name, and failed it.
[[nodiscard]] bool fails_gate(const Result& result, std::string_view name);

/// Returns the rule by which a run judges a lossy mode's gradient error, as if the definition
/// declared it.
[[nodiscard]] GateRule gradient_error_rule(double bound);

/// Returns whether `value relation bound` holds. Throws std::logic_error for an unknown relation.
[[nodiscard]] bool satisfies(double value, const std::string& relation, double bound);

/// The metric of that name, or null.
[[nodiscard]] const Metric* find_metric(const Result& result, std::string_view name);

/// The value of that metric; empty where the result has none.
[[nodiscard]] std::optional<double> metric_value(const Result& result, std::string_view name);

/// Returns whether a run came to its end and was judged, for better or worse: its last evaluation
/// is the one that counts, and there is nothing left to do. What threw before its gates has the
/// exit code of a failed one too, and did not.
[[nodiscard]] bool is_finished(const Result& result);

/// Returns whether such a run made all its steps: training that left the finite numbers did not.
[[nodiscard]] bool came_to_its_last_step(const Result& result);

/// kFailed with one reason per failed gate and status "failed"; else kPass with status "pass", or
/// "custom" when the definition was changed.
[[nodiscard]] Exit exit_of(const std::vector<Gate>& gates, bool custom);

}  // namespace noisemark::reports
