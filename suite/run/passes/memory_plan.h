#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "memopt/modes/budget_mode.h"
#include "suite/run/passes/session.h"

namespace noisemark::suite {

/// The planner's answer for a benchmark's recorded step.
struct MemoryPlan {
  std::string id;       ///< id with its scale
  std::string variant;  ///< label that variant_label() gives
  memopt::Budget budget;
  std::shared_ptr<const memopt::Planner> planner;
  std::optional<memopt::BudgetAnswer> answer;  ///< is empty where the budget cannot be met
  double recorded_step_s = 0;  ///< the shorter of the recorded ones, which keep everything
  double planning_s = 0;
  double codec_measuring_s = 0;          ///< time before planning, which it is no part of
  std::optional<double> measured_error;  ///< error of the gradient, if the budget allows one
  int probed_passes = 0;                 ///< backward passes that measured such errors
};

/// Trains the steps that a budget mode needs to make its plan. `options.spec.mode` must be one.
/// Throws Error, exit code 2, when the step cannot be planned.
[[nodiscard]] MemoryPlan make_memory_plan(const SessionOptions& options);

/// Predicts the time of a whole step under a plan that adds so much to one that keeps everything.
[[nodiscard]] double predicted_step_s(const MemoryPlan& plan, const memopt::PlanPoint& point);

/// The budget, what it gets, the Pareto curve and every saved storage, as Markdown.
[[nodiscard]] std::string memory_plan_text(const MemoryPlan& plan);

/// Draws the Pareto curve into `folder`/plots. Returns why it was left out, empty when it was not.
[[nodiscard]] std::string draw_memory_plan(const MemoryPlan& plan,
                                           const std::filesystem::path& folder);

}  // namespace noisemark::suite
