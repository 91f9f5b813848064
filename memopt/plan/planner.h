#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "memopt/plan/cost_bound.h"
#include "memopt/plan/options.h"

namespace noisemark::memopt {

/// The error that the options are expected to add to the squared relative error of a step's
/// gradient, block by block, and how much all of them together may add. Errors of different blocks
/// are taken to be uncorrelated, so that their squares add up.
struct ErrorModel {
  std::vector<std::vector<double>> squared;  ///< one for each option of each block; is empty where
                                             ///< no option rounds
  double limit_squared = std::numeric_limits<double>::infinity();

  [[nodiscard]] double of(size_t block, size_t option) const {
    return squared.empty() ? 0 : squared[block][option];
  }
  [[nodiscard]] double of(const std::vector<size_t>& chosen) const;
  [[nodiscard]] bool allows(const std::vector<size_t>& chosen) const {
    return of(chosen) <= limit_squared;
  }
  /// Every option that rounds is expected to add `factor` times as much.
  void scale(double factor);
  /// Every option is expected to add what it adds in the worse of two models of the same options.
  void take_larger(const ErrorModel& other);
  /// No option that rounds is allowed anywhere.
  void forbid_rounding(const std::vector<BlockOption>& options);
};

/// The relative error of the gradient under a plan, measured.
using MeasureError = std::function<double(const std::shared_ptr<const TreatmentPlan>&)>;

/// Makes the model from one measurement for each way to round, with all blocks rounded, and one for
/// each block, with that block alone rounded by the middle one of them: a block's share of the
/// error is taken to be the same for all. What is recomputed from rounded values is taken to be as
/// wrong as what is rounded itself.
[[nodiscard]] ErrorModel measured_error_model(const BlockOptions& options,
                                              const MeasureError& error_of, double limit);

/// The figure that a budget bounds.
enum class BudgetTarget : uint8_t {
  kPeak,       ///< the most bytes of all owners, as far as the recorded step was measured
  kPeakSaved,  ///< the most bytes held for backward
};

/// Bounds how far a step may be above what its timeline says, in thousandths. It is the largest
/// seen, rounded up. Under the replaying modes, gist and plans that mix them, peak_bytes was never
/// above (up to 0.8 below). peak_saved_bytes was up to 15.6 above on the U-Net of Ho et al. with 32
/// channels; the nets of the tests, which hold the plans of fifty budgets each against this margin,
/// are within 5.
[[nodiscard]] constexpr int64_t margin_per_mille(BudgetTarget target) {
  return target == BudgetTarget::kPeak ? 1 : 16;
}

/// The smallest budget that is given a plan of so many predicted bytes.
[[nodiscard]] constexpr int64_t budget_for(BudgetTarget target, int64_t predicted_bytes) {
  return predicted_bytes + (predicted_bytes / 1000 + 1) * margin_per_mille(target);
}

/// One plan, with what its timeline says. All figures are of the plan itself, not of the blocks'
/// estimates.
struct PlanPoint {
  std::vector<size_t> chosen;   ///< index of each block's option
  std::vector<StorageId> held;  ///< storages that are held as they were saved, whatever the options
                                ///< do with them
  int64_t peak_bytes = 0;
  int64_t peak_saved_bytes = 0;
  int64_t saved_bytes = 0;  ///< at the end of forward
  int64_t cost_ns = 0;      ///< time that a step is longer
  double error = 0;         ///< expected error of the gradient

  [[nodiscard]] int64_t of(BudgetTarget target) const {
    return target == BudgetTarget::kPeak ? peak_bytes : peak_saved_bytes;
  }
  [[nodiscard]] bool same_plan_as(const PlanPoint& other) const {
    return chosen == other.chosen && held == other.held;
  }
};

/// The plan that a budget gets.
struct BudgetAnswer {
  PlanPoint point;
  double lower_bound_ns = 0;  ///< no plan of the step within the budget costs less, whatever it
                              ///< does with each storage (cost_bound.h); 0: no bound is known
  bool exact = false;         ///< no choice of options for the blocks costs less: every one was
                              ///< tried, or treats each block as one that was tried does

  /// (cost - bound) / bound; 0 when the plan costs nothing, empty when no bound is known.
  [[nodiscard]] std::optional<double> gap() const;
};

/// Chooses among plans for a recorded step. The choices of options that the block program finds
/// best for budgets between keeping everything and the smallest peak are put through the timeline
/// once; where there are few choices, all are. Then the widest gaps between two plans are filled
/// with plans that treat storages singly: those of the smaller plan that cost most for each byte
/// are held after all. This is done for the options without a price limit, and again for all, with
/// what was found before: options with price limits only add to the curve. A budget gets the
/// cheapest of all these plans whose timeline is within it with the margin. So the predicted peak
/// of an answer is never above its budget, and a smaller budget never gets a higher one or a lower
/// cost, as long as the measured costs are the same. Choices beyond the limit of the error model
/// are left out of all this; the first of the options keeps everything.
///
/// The block program's own lower bound is not passed on. It bounds sums of the blocks' estimates,
/// which are neither above nor below what a timeline says: blocks share skip connections, and
/// memory that one block has dropped lives on in another. A plan within the budget may cost less.
class Planner {
 public:
  Planner(std::shared_ptr<const BlockOptions> options, BudgetTarget target, CodecFigures figures,
          ErrorModel errors = {}, const PassesBeside& beside = {});

  /// The points from the cheapest plan to the smallest; no point beats another in bytes and cost.
  [[nodiscard]] const std::vector<PlanPoint>& curve() const { return curve_; }
  /// The smallest budget that can be met.
  [[nodiscard]] int64_t smallest_bytes() const {
    return budget_for(target_, curve_.back().of(target_));
  }
  /// Can be met whatever operators take; their costs guide the search for smaller plans.
  [[nodiscard]] int64_t sure_bytes() const { return budget_for(target_, sure_bytes_); }
  /// Returns nothing when the budget is below smallest_bytes().
  [[nodiscard]] std::optional<BudgetAnswer> within(int64_t budget_bytes) const;
  [[nodiscard]] TreatmentPlan plan(const PlanPoint& point) const {
    return options_->plan(point.chosen, point.held);
  }
  [[nodiscard]] const BlockOptions& options() const { return *options_; }
  [[nodiscard]] BudgetTarget target() const { return target_; }

 private:
  [[nodiscard]] std::vector<PlanPoint> uniform_points();
  void add_allowed(std::vector<PlanPoint>& points, std::vector<PlanPoint>::iterator begin,
                   std::vector<PlanPoint>::iterator end) const;
  bool search(std::vector<PlanPoint>& points, size_t options);
  [[nodiscard]] PlanPoint evaluate(const std::vector<size_t>& chosen,
                                   const std::vector<StorageId>& held = {}) const;
  [[nodiscard]] std::vector<std::vector<size_t>> all_choices(size_t count) const;
  [[nodiscard]] std::vector<std::vector<size_t>> likely_choices(size_t count) const;
  [[nodiscard]] PlanPoint point_of(const PeakTimeline& timeline,
                                   const std::vector<size_t>& chosen) const;
  void lower_the_smallest(std::vector<PlanPoint>& points) const;
  void fill_gaps(std::vector<PlanPoint>& points) const;
  [[nodiscard]] std::vector<StorageId> to_hold_between(const PlanPoint& larger,
                                                       const PlanPoint& smaller) const;
  [[nodiscard]] plan::Limits limits_within(int64_t peak_bytes) const;

  std::shared_ptr<const BlockOptions> options_;
  BudgetTarget target_;
  CodecFigures figures_;
  ErrorModel errors_;
  PeakTimeline kept_;  ///< peaks when everything is kept
  std::vector<OtherBytes> other_;
  PassesBeside beside_;
  CostBound bound_;
  std::vector<plan::Block> blocks_;
  bool tried_all_ = false;
  int64_t sure_bytes_ = 0;
  std::vector<PlanPoint> curve_;
};

}  // namespace noisemark::memopt
