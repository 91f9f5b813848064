#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "memopt/plan/error_model.h"
#include "memopt/plan/options.h"

namespace noisemark::memopt {

/// What a budget bounds.
enum class BudgetTarget : uint8_t {
  kPeak,       ///< the most bytes of all owners, as far as the recorded step was measured
  kPeakSaved,  ///< the most bytes held for backward
};

/// One choice of options, with what its timeline says. All figures are of the plan itself, not of
/// the blocks' estimates.
struct PlanPoint {
  std::vector<size_t> chosen;  ///< by block, index into the options
  int64_t peak_bytes = 0;
  int64_t peak_saved_bytes = 0;
  int64_t saved_bytes = 0;  ///< at the end of forward
  int64_t cost_ns = 0;      ///< added to a step
  double error = 0;         ///< of the gradient, expected

  [[nodiscard]] int64_t of(BudgetTarget target) const {
    return target == BudgetTarget::kPeak ? peak_bytes : peak_saved_bytes;
  }
};

/// What a budget gets.
struct BudgetAnswer {
  PlanPoint point;
  double lower_bound_ns = 0;  ///< no choice of options within the budget costs less, by the blocks'
                              ///< estimates; exact when `exact`
  bool exact = false;         ///< all choices were tried

  /// (cost - bound) / bound; 0 when both are 0.
  [[nodiscard]] double gap() const;
};

/// Chooses among plans for a recorded step. The choices of options that the block program finds
/// best for budgets between keeping everything and the smallest peak are put through the timeline
/// once; a budget gets the cheapest of them whose timeline is within it. So the peak of an answer
/// is never above its budget, and a smaller budget never gets a higher peak or a lower cost.
/// Choices beyond the limit of the error model are left out of all this; the first of the options
/// is exact.
class Planner {
 public:
  Planner(std::shared_ptr<const BlockOptions> options, BudgetTarget target, CodecFigures figures,
          ErrorModel errors = {});

  /// From the cheapest plan to the smallest; no point beats another in bytes and cost.
  [[nodiscard]] const std::vector<PlanPoint>& curve() const { return curve_; }
  /// The smallest budget that can be met.
  [[nodiscard]] int64_t smallest_bytes() const { return curve_.back().of(target_); }
  /// Empty when the budget is below smallest_bytes().
  [[nodiscard]] std::optional<BudgetAnswer> within(int64_t budget_bytes) const;
  [[nodiscard]] TreatmentPlan plan(const PlanPoint& point) const {
    return options_->plan(point.chosen);
  }
  [[nodiscard]] const BlockOptions& options() const { return *options_; }
  [[nodiscard]] BudgetTarget target() const { return target_; }
  /// Whether an error was allowed.
  [[nodiscard]] bool rounds() const { return !errors_.squared.empty(); }

 private:
  [[nodiscard]] PlanPoint evaluate(const std::vector<size_t>& chosen) const;
  [[nodiscard]] std::vector<std::vector<size_t>> all_choices() const;
  [[nodiscard]] std::vector<std::vector<size_t>> likely_choices() const;
  void lower_the_smallest(std::vector<PlanPoint>& points) const;
  [[nodiscard]] plan::Limits limits_within(int64_t peak_bytes) const;
  [[nodiscard]] double lower_bound_ns(int64_t budget_bytes, int64_t cost_ns) const;

  std::shared_ptr<const BlockOptions> options_;
  BudgetTarget target_;
  CodecFigures figures_;
  ErrorModel errors_;
  std::vector<OtherBytes> other_;
  std::vector<plan::Block> blocks_;
  bool tried_all_ = false;
  std::vector<PlanPoint> curve_;
};

}  // namespace noisemark::memopt
