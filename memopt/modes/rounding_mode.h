#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "memopt/modes/planned_mode.h"

namespace noisemark::memopt {

/// A planned mode that rounds. Rules of single operators (record/exact_storages.h) cannot know that
/// gradients cancel each other, or that a loss weighs a small row so much. So one pass between the
/// one that verifies a plan and the first that follows it keeps everything, and its backward is
/// run under the plan too: where the gradient of all parameters moves by more than the bound, the
/// storages to blame are found by halves, and are not rounded, which the next pass confirms. Later
/// steps are measured only where a later plan rounds other storages. A backward in which hooks or
/// functions of the program run is not measured, since they would run more often than without the
/// mode: there the rules of single operators are all. Nor is one within the scope or on another
/// thread. Where three steps have no gradient that can be measured, the plan is followed, and a
/// later step is tried.
class RoundingMode final : public PlannedMode {
 public:
  /// `bound`: the most that a step's gradient may move, as a share of it.
  RoundingMode(std::string name, Policy policy, double bound);

  [[nodiscard]] int64_t forwards_until_steady() const override {
    return PlannedMode::forwards_until_steady() + 1;
  }

 protected:
  [[nodiscard]] TreatmentPlan plan_for(std::shared_ptr<const StepGraph> graph,
                                       const Overrides& overrides, bool verified) override;
  [[nodiscard]] bool wants_rehearsal() const override;
  void rehearse(GradientProbe& probe) override;
  [[nodiscard]] bool rehearses_hooks() const override { return false; }
  [[nodiscard]] bool follows_unrehearsed(Unrehearsed why) override;
  void forget_rehearsal() override { measured_.clear(); }
  /// Nobody would measure it then.
  [[nodiscard]] bool serves_later() const override { return is_measured(); }
  void forget_plan() override {
    measured_.clear();
    measured_in_ = searches_ = unrehearsed_ = unrehearsed_in_ = patience_ = measures_from_ = 0;
    roundings_.clear();
    rounded_.clear();
  }

 private:
  using Storages = std::vector<StorageId>;
  /// Storages that a plan rounds, each with the form of the codec that does.
  using Roundings = std::set<std::pair<StorageId, std::string>>;
  using MeasureError = std::function<double(const Storages&)>;

  [[nodiscard]] bool is_measured() const { return rounded_.empty() || measured_ == roundings_; }
  void measure(GradientProbe& probe, const MeasureError& error_of);
  [[nodiscard]] static Roundings roundings_of(const TreatmentPlan& plan);
  [[nodiscard]] std::shared_ptr<const TreatmentPlan> plan_that_rounds(const Storages& rounded);
  /// Returns those of `rounded_` that are not in `rounded`; both are sorted.
  [[nodiscard]] Storages others_than(const Storages& rounded) const;
  [[nodiscard]] Storages least_harmful(const MeasureError& error_of) const;

  double bound_;
  Overrides overrides_;      ///< those of the plan in force
  Roundings roundings_;      ///< those of the plan in force
  Roundings measured_;       ///< those of the plan that was measured: errors may have cancelled
  Storages rounded_;         ///< storages of `roundings_` that no backward forbade
  int64_t measured_in_ = 0;  ///< the number of the pass that was measured last
  int64_t searches_ = 0;
  int64_t unrehearsed_ = 0;     ///< steps with a pass of which no backward was rehearsed
  int64_t unrehearsed_in_ = 0;  ///< steps() in the last of them
  int64_t patience_ = 0;        ///< steps that were let by last before another was tried
  int64_t measures_from_ = 0;   ///< steps() of the next that is tried
};

}  // namespace noisemark::memopt
