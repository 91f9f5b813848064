#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "memopt/budget.h"
#include "memopt/plan/planner.h"
#include "memopt/planned_mode.h"

namespace noisemark::memopt {

/// No plan is within a budget.
class BudgetTooSmall : public std::runtime_error {
 public:
  BudgetTooSmall(const Budget& budget, int64_t smallest_bytes);
  /// The smallest budget that can be met.
  [[nodiscard]] int64_t smallest_bytes() const { return smallest_bytes_; }

 private:
  int64_t smallest_bytes_;
};

/// A planned mode whose plan is the cheapest that the planner knows within a budget. The third pass
/// compares whatever any option could make again. Where the budget cannot be met, the next forward
/// pass throws BudgetTooSmall.
///
/// With an error the options that round are tried in the fourth pass, which keeps everything: its
/// backward is run several times more, to measure what each way to round would do to the gradient
/// (plan/error_model.h), and once under each plan that is chosen. A plan whose measured error is
/// above the bound is not followed; a more careful one is chosen. Where the gradient of that pass
/// is zero or not finite, the pass after it serves.
class BudgetMode final : public PlannedMode {
 public:
  explicit BudgetMode(const Budget& budget);

  void attach(const ModelView& model) override;
  void begin_forward() override;
  [[nodiscard]] int64_t forwards_until_steady() const override;
  /// By all options together: what one of them could make again does not count.
  [[nodiscard]] std::optional<int64_t> irreplaceable_bytes() const override;

  /// Of the plan in force; null and empty before it was made.
  [[nodiscard]] std::shared_ptr<const Planner> planner() const { return planner_; }
  [[nodiscard]] const std::optional<BudgetAnswer>& answer() const { return answer_; }
  /// All that was done to plan: the plan that is compared, what each option does to each block, the
  /// search, and the plan in force. What had to be measured first is no part of it: codecs, and
  /// errors by backward passes.
  [[nodiscard]] double planning_s() const { return planning_s_; }
  /// To learn what codecs cost on this device; next to nothing where the process knew it before.
  [[nodiscard]] double codec_measuring_s() const { return codec_measuring_s_; }
  /// Of the gradient of the fourth pass under the plan in force, or under the plan that a budget
  /// too small would have needed; empty where no error is allowed.
  [[nodiscard]] const std::optional<double>& measured_error() const { return measured_error_; }
  /// Backward passes that were run to measure errors.
  [[nodiscard]] int probed_passes() const { return probed_passes_; }

 private:
  TreatmentPlan plan_for(std::shared_ptr<const StepGraph> graph, const Overrides& overrides,
                         bool verified) override;
  [[nodiscard]] bool wants_rehearsal() const override;
  void rehearse(GradientProbe& probe) override;
  [[nodiscard]] CodecFigures measured_figures();
  void plan_within(ErrorModel errors);
  void plan_and_measure(GradientProbe& probe);
  [[nodiscard]] TreatmentPlan answered() const;

  Budget budget_;
  std::shared_ptr<const BlockOptions> options_;  ///< by what is known of recipes and codecs
  std::shared_ptr<const Planner> planner_;
  std::optional<BudgetAnswer> answer_;
  std::optional<double> measured_error_;
  int probed_passes_ = 0;
  double planning_s_ = 0;
  double codec_measuring_s_ = 0;
  double apart_s_ = 0;  ///< of probed_passes_ and of measuring codecs
  std::exception_ptr failure_;
};

/// Throws std::invalid_argument, as parse_budget() does.
[[nodiscard]] std::unique_ptr<Mode> make_budget_mode(std::string_view spelling);

}  // namespace noisemark::memopt
