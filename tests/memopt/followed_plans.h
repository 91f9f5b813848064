#pragma once

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memopt/modes/budget_mode.h"
#include "memopt/replay/execution.h"

namespace noisemark::memopt::test {

/// A budget mode that can be told to follow other plans for the step it has recorded: all of one
/// planner, so of the same measured costs.
class FollowedPlans final : public Mode {
 public:
  explicit FollowedPlans(BudgetTarget target) : recorded_({target, int64_t{1} << 40}) {}

  [[nodiscard]] const Planner& planner() const { return *recorded_.planner(); }
  void follow(TreatmentPlan plan) {
    plan_ = std::make_shared<const TreatmentPlan>(std::move(plan));
  }
  /// A recipe or codec was not what the plan takes it for, in the step before.
  [[nodiscard]] bool departed() const { return departed_; }

  [[nodiscard]] std::string name() const override { return recorded_.name(); }
  [[nodiscard]] bool lossless() const override { return true; }
  void attach(const ModelView& model) override { recorded_.attach(model); }
  void begin_step(int64_t step) override {
    step_ = step;
    if (plan_ == nullptr) recorded_.begin_step(step);
  }
  void begin_forward() override {
    if (plan_ == nullptr) return recorded_.begin_forward();
    execution_ = std::make_unique<PlanExecution>(plan_, EncodeKey{0, step_, 0},
                                                 PlanExecution::Purpose::kFollow);
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() override {
    return plan_ == nullptr ? recorded_.make_hooks() : execution_->make_hooks();
  }
  void end_forward() override {
    if (plan_ == nullptr) return recorded_.end_forward();
    execution_->end_forward();
  }
  void end_step() override {
    if (plan_ == nullptr) return recorded_.end_step();
    departed_ = execution_->departed() || !execution_->refused().empty() ||
                !execution_->findings()->all().mismatched.empty();
    execution_.reset();
  }
  [[nodiscard]] int64_t forwards_until_steady() const override {
    return recorded_.forwards_until_steady();
  }
  [[nodiscard]] std::vector<at::Tensor> held() const override {
    if (plan_ == nullptr) return recorded_.held();
    return execution_ == nullptr ? std::vector<at::Tensor>{} : execution_->held();
  }

 private:
  BudgetMode recorded_;
  std::shared_ptr<const TreatmentPlan> plan_;
  std::unique_ptr<PlanExecution> execution_;
  int64_t step_ = 0;
  bool departed_ = false;
};

}  // namespace noisemark::memopt::test
