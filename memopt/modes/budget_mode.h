#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "memopt/accounting/allocation_source.h"
#include "memopt/modes/budget.h"
#include "memopt/modes/planned_mode.h"
#include "memopt/plan/planner.h"

namespace noisemark::memopt {

/// No plan is within a budget: the program asked for what cannot be, so trying again is in vain.
class BudgetTooSmall : public std::invalid_argument {
 public:
  BudgetTooSmall(const Budget& budget, int64_t smallest_bytes);
  /// The smallest budget that can be met.
  [[nodiscard]] int64_t smallest_bytes() const { return smallest_bytes_; }

 private:
  int64_t smallest_bytes_;
};

/// A step did not keep a budget that is strict.
class BudgetNotKept : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A planned mode whose plan is the cheapest that the planner knows within a budget. The third pass
/// compares whatever any option could recompute. Where the budget cannot be met,
/// the next begin_step() throws BudgetTooSmall, and everything is kept until then. A training that
/// kept the budget, or had a plan within it, and then needs more, because its model, its batches or
/// the kind of its passes changed, goes on under the smallest plan.
///
/// A plan of the first step within "budget:SIZE" is planned again in the second, because an
/// optimizer makes its state between the two. What a step held beyond the budget although its
/// passes followed the plan, as copies that autocast keeps from one pass to the next, is left room
/// for from then on. Where several forward passes run before their backwards, each gets its share
/// of "saved=". report() counts the steps that did not keep the budget, also those that ran while
/// graphs of earlier steps were held. If it is strict, check_step() throws BudgetNotKept for such a
/// step.
///
/// With an error the options that round are tried in the fourth pass, which keeps everything: its
/// backward is run several times more, to measure what each way to round would do to the gradient
/// (plan/planner.h), and once under each plan that is chosen. A plan whose measured error is
/// above the bound is not followed; a more careful one is chosen. Where the gradient of that pass
/// is zero or not finite, the pass after it serves. Each backward of the pass is measured, and what
/// none of them asked for is not rounded. Where backward gives another gradient each time, though
/// nothing is rounded, the program's own backward throws BackwardNotRepeatable once, before it
/// begins, and everything is kept from then on. What rounding adds to a gradient is taken to stay
/// as large as it was then, however small the gradient becomes: when `.grad` at the end of a step
/// (on another device, in check_step()) is so small that the error is expected to be 1.25 times the
/// bound, the step is counted, an error where the budget is strict, and a plan is chosen that keeps
/// the bound for such a gradient, if the budget has one. A step whose gradient is more than 16
/// times as large as the measured one is counted too, since it is of other values, and where none
/// was that large before, the error is measured again. So is a step counted at whose end no
/// parameter has a dense gradient, because a hook cleared it or the program asked for it by grad().
class BudgetMode final : public PlannedMode {
 public:
  explicit BudgetMode(const Budget& budget);

  void attach(const ModelView& model) override;
  void begin_step(int64_t step) override;
  void begin_forward() override;
  void end_step() override;
  void check_step() override;
  [[nodiscard]] PlannedModeReport report() const override;
  [[nodiscard]] int64_t forwards_until_steady() const override;
  /// Returns the bytes that all options together cannot replace: what one of them could recompute
  /// does not count.
  [[nodiscard]] std::optional<int64_t> irreplaceable_bytes() const override;

  /// The planner and the answer of the plan in force; null and empty before it was made.
  [[nodiscard]] std::shared_ptr<const Planner> planner() const { return planner_; }
  [[nodiscard]] const std::optional<BudgetAnswer>& answer() const { return answer_; }
  /// All that was done to plan: the plan that is compared, what each option does to each block, the
  /// search, and the plan in force. What had to be measured first is no part of it: codecs, and
  /// errors by backward passes.
  [[nodiscard]] double planning_s() const { return planning_s_; }
  /// The time that it took to learn what codecs cost on this device; next to nothing where the
  /// process knew it before.
  [[nodiscard]] double codec_measuring_s() const { return codec_measuring_s_; }
  /// The error of the fourth pass's gradient under the plan that was chosen then, or under the plan
  /// that a budget too small would have needed; empty where no error is allowed.
  [[nodiscard]] const std::optional<double>& measured_error() const { return measured_error_; }
  /// Backward passes that were run to measure errors.
  [[nodiscard]] int probed_passes() const { return probed_passes_; }

 private:
  TreatmentPlan plan_for(std::shared_ptr<const StepGraph> graph, const Overrides& overrides,
                         bool verified) override;
  [[nodiscard]] bool wants_rehearsal() const override;
  void rehearse(GradientProbe& probe) override;
  void forget_rehearsal() override { measured_error_.reset(); }
  void before_pass() override;
  [[nodiscard]] bool serves_later() const override { return needed_bytes_ == 0; }
  void forget_plan() override;
  /// The bytes that one pass may take of the budget.
  [[nodiscard]] int64_t share() const;
  [[nodiscard]] bool is_planned_too_early() const;
  /// Says how a step did not keep the budget.
  struct Excess {
    std::string reason;            ///< is empty where it kept the budget
    int64_t unforeseen_bytes = 0;  ///< bytes held beside passes that all went as planned
  };
  [[nodiscard]] Excess excess_of_step(int64_t high_bytes) const;
  [[nodiscard]] bool exceeds_with(int64_t more_bytes) const;
  void predict_again();
  [[nodiscard]] CodecFigures measured_figures();
  void plan_within(ErrorModel errors);
  void plan_and_measure(GradientProbe& probe);
  [[nodiscard]] bool takes_smallest(const ErrorModel& errors, const MeasureError& error_of);
  void expect_error(ErrorModel errors, double measured);
  void look_at_gradient();
  void note_uncertain(std::string reason);
  [[nodiscard]] bool plans_for_gradient(double norm);
  void measure_again(double norm);
  [[nodiscard]] TreatmentPlan answered();
  /// Returns the smallest that the planner knows where none is within the budget.
  [[nodiscard]] const PlanPoint& point_in_force() const;

  Budget budget_;
  std::shared_ptr<const BlockOptions> options_;  ///< they follow from what is known of recipes and
                                                 ///< codecs
  std::shared_ptr<const Planner> planner_;
  std::optional<BudgetAnswer> answer_;
  std::optional<double> measured_error_;
  ErrorModel errors_;          ///< the plan in force was chosen by it
  double gradient_norm_ = 0;   ///< it was chosen for a gradient of this norm; 0: not yet known
  double largest_norm_ = 0;    ///< the largest after which an error was measured again
  double expected_error_ = 0;  ///< error expected of such a gradient under the plan in force
  bool most_careful_ = false;  ///< the budget has no more careful plan
  int probed_passes_ = 0;
  double planning_s_ = 0;
  double codec_measuring_s_ = 0;
  double apart_s_ = 0;  ///< the time of these passes and of measuring codecs, not in planning_s_
  std::exception_ptr failure_;
  int64_t together_ = 1;                  ///< passes that share the budget
  int64_t needed_bytes_ = 0;              ///< need of the plan in force, where that is not within
                                          ///< the budget
  int64_t unforeseen_bytes_ = 0;          ///< Excess::unforeseen_bytes of all steps so far
  std::unique_ptr<HighMark> step_mark_;   ///< high mark of the step in progress; null: not read
  int64_t step_high_bytes_ = kNone;       ///< the most live so far in the step in progress
  int64_t gradients_before_bytes_ = 0;    ///< those of the gradients when it began
  int64_t before_first_bytes_ = kNone;    ///< the most live before its first pass began
  int64_t most_before_passes_bytes_ = 0;  ///< the most that a step needed before a pass of it
  int64_t passes_before_ = 0;             ///< passes() when the step began
  int64_t followed_before_ = 0;
  int64_t retained_before_ = 0;
  int64_t refused_before_ = 0;
  int64_t followed_too_early_ = 0;  ///< passes that followed a plan which was made too early
  int64_t watched_from_ = 0;        ///< passes() when that plan was given up
  KeptBudget kept_;
  bool in_step_ = false;
  bool step_exceeded_ = false;    ///< the last one
  bool step_uncertain_ = false;   ///< its error may be above what is allowed
  int64_t passes_looked_at_ = 0;  ///< number of passes when the gradient was last looked at
};

/// Throws std::invalid_argument, as parse_budget() does.
[[nodiscard]] std::unique_ptr<Mode> make_budget_mode(std::string_view spelling);

}  // namespace noisemark::memopt
