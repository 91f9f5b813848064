#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "memopt/plan/cost_bound.h"
#include "memopt/plan/error_model.h"
#include "memopt/plan/options.h"

namespace noisemark::memopt {

/// What a budget bounds.
enum class BudgetTarget : uint8_t {
  kPeak,       ///< the most bytes of all owners, as far as the recorded step was measured
  kPeakSaved,  ///< the most bytes held for backward
};

/// How far a step may be above what its timeline says, in thousandths: the largest that was seen,
/// rounded up. On the nets of the tests and on the U-Net of Ho et al. with 32 channels, under the
/// replaying modes, gist and plans that mix them, peak_bytes was never above (up to 0.8 below) and
/// peak_saved_bytes up to 15.6 above.
[[nodiscard]] constexpr int64_t margin_per_mille(BudgetTarget target) {
  return target == BudgetTarget::kPeak ? 1 : 16;
}

/// The smallest budget that is given a plan of so many predicted bytes.
[[nodiscard]] constexpr int64_t budget_for(BudgetTarget target, int64_t predicted_bytes) {
  return predicted_bytes + (predicted_bytes / 1000 + 1) * margin_per_mille(target);
}

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
  double lower_bound_ns = 0;  ///< no plan of the step within the budget costs less, whatever it
                              ///< does with each storage (cost_bound.h); 0: no bound is known
  bool exact = false;         ///< all choices of options were tried: none of them costs less

  /// (cost - bound) / bound; 0 when the plan costs nothing, empty when no bound is known.
  [[nodiscard]] std::optional<double> gap() const;
};

/// Chooses among plans for a recorded step. The choices of options that the block program finds
/// best for budgets between keeping everything and the smallest peak are put through the timeline
/// once; a budget gets the cheapest of them whose timeline is within it with the margin. So the
/// predicted peak of an answer is never above its budget, and a smaller budget never gets a higher
/// one or a lower cost, as long as the measured costs are the same. Choices beyond the limit of the
/// error model are left out of all this; the first of the options keeps everything.
class Planner {
 public:
  Planner(std::shared_ptr<const BlockOptions> options, BudgetTarget target, CodecFigures figures,
          ErrorModel errors = {});

  /// From the cheapest plan to the smallest; no point beats another in bytes and cost.
  [[nodiscard]] const std::vector<PlanPoint>& curve() const { return curve_; }
  /// The smallest budget that can be met.
  [[nodiscard]] int64_t smallest_bytes() const {
    return budget_for(target_, curve_.back().of(target_));
  }
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
  [[nodiscard]] PlanPoint point_of(const PeakTimeline& timeline,
                                   const std::vector<size_t>& chosen) const;
  void lower_the_smallest(std::vector<PlanPoint>& points) const;
  [[nodiscard]] plan::Limits limits_within(int64_t peak_bytes) const;

  std::shared_ptr<const BlockOptions> options_;
  BudgetTarget target_;
  CodecFigures figures_;
  ErrorModel errors_;
  std::vector<OtherBytes> other_;
  CostBound bound_;
  int64_t kept_bytes_ = 0;  ///< when everything is kept
  std::vector<plan::Block> blocks_;
  bool tried_all_ = false;
  std::vector<PlanPoint> curve_;
};

}  // namespace noisemark::memopt
