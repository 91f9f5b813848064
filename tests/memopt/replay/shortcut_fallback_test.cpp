#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "memopt/mode_grammar.h"
#include "memopt/planned_mode.h"
#include "memopt/policies.h"
#include "memopt/saved_tensor_scope.h"
#include "tests/memopt/block_net.h"

namespace noisemark::memopt {
namespace {

int64_t shortcuts_of(const TreatmentPlan& plan) {
  return std::count_if(plan.recipes.begin(), plan.recipes.end(),
                       [](const auto& recipe) { return recipe->is_shortcut; });
}

/// "echo", all of whose shortcuts give zeros.
class WrongShortcuts final : public PlannedMode {
 public:
  WrongShortcuts() : PlannedMode("echo", /*lossless=*/true, policy_of(parse_mode("echo"))) {}

 private:
  TreatmentPlan plan_for(std::shared_ptr<const StepGraph> graph, const Overrides& overrides,
                         bool verified) override {
    TreatmentPlan plan = PlannedMode::plan_for(std::move(graph), overrides, verified);
    for (std::shared_ptr<const Recipe>& recipe : plan.recipes) {
      if (!recipe->is_shortcut) continue;
      Recipe wrong = *recipe;
      wrong.run = [run = recipe->run](const std::vector<at::Tensor>& inputs) {
        return std::vector<at::Tensor>{at::zeros_like(run(inputs).front())};
      };
      recipe = std::make_shared<const Recipe>(std::move(wrong));
    }
    return plan;
  }
};

class Training {
 public:
  explicit Training(PlannedMode& mode) : mode_(mode) {
    at::manual_seed(3);
    net_ = std::make_unique<test::BlockNet>();
    x_ = at::randn({2, 3, 16, 16});
    mode_.attach(net_->view());
  }

  std::vector<at::Tensor> gradients_of_step(int64_t number) {
    at::manual_seed(static_cast<uint64_t>(number));
    net_->zero_grad();
    mode_.begin_step(number);
    at::Tensor loss;
    {
      const SavedTensorScope scope(mode_);
      loss = net_->forward(x_).square().mean();
    }
    loss.backward();
    mode_.end_step();
    return net_->gradients();
  }

 private:
  PlannedMode& mode_;
  std::unique_ptr<test::BlockNet> net_;
  at::Tensor x_;
};

TEST(Shortcuts, serve_the_norms_of_a_unet) {
  PlannedMode mode("echo", true, policy_of(parse_mode("echo")));
  Training training(mode);
  for (int64_t number = 1; number <= 4; ++number) (void)training.gradients_of_step(number);
  // The norms, their activations and the masked activations that convolutions read.
  EXPECT_GE(shortcuts_of(*mode.plan()), 9);
  EXPECT_EQ(mode.report().replayed_after_mismatch, 0);
  EXPECT_EQ(mode.report().kept_after_mismatch, 0);
}

TEST(Shortcuts, give_way_to_their_operators_where_they_are_not_exact) {
  PlannedMode right("echo", true, policy_of(parse_mode("echo")));
  WrongShortcuts wrong;
  Training expected(right);
  Training training(wrong);
  int64_t shortcuts = 0;
  for (int64_t number = 1; number <= 7; ++number) {
    const std::vector<at::Tensor> a = expected.gradients_of_step(number);
    const std::vector<at::Tensor> b = training.gradients_of_step(number);
    if (number == 2) shortcuts = shortcuts_of(*wrong.plan());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << number;
  }
  EXPECT_GT(shortcuts, 0);
  // Also those that are tried next: of the activation, where the masked one's was wrong.
  EXPECT_GT(wrong.report().replayed_after_mismatch, shortcuts);
  EXPECT_EQ(wrong.report().kept_after_mismatch, 0);
  EXPECT_EQ(shortcuts_of(*wrong.plan()), 0);
  EXPECT_GT(wrong.report().counters.recipes_run, 0);
}

}  // namespace
}  // namespace noisemark::memopt
