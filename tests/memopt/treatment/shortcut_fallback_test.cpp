#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/modes/mode_grammar.h"
#include "memopt/modes/planned_mode.h"
#include "memopt/modes/policies.h"
#include "tests/memopt/nets.h"

namespace noisemark::memopt {
namespace {

int64_t shortcuts_of(const TreatmentPlan& plan) {
  return std::count_if(plan.recipes.begin(), plan.recipes.end(),
                       [](const auto& recipe) { return recipe->is_shortcut; });
}

/// Some recipes of "echo" give zeros.
class WrongRecipes final : public PlannedMode {
 public:
  using IsWrong = std::function<bool(const Recipe& recipe)>;
  explicit WrongRecipes(IsWrong is_wrong)
      : PlannedMode("echo", /*lossless=*/true, policy_of(parse_mode("echo"))),
        is_wrong_(std::move(is_wrong)) {}

 private:
  TreatmentPlan plan_for(std::shared_ptr<const StepGraph> graph, const Overrides& overrides,
                         bool verified) override {
    TreatmentPlan plan = PlannedMode::plan_for(std::move(graph), overrides, verified);
    for (std::shared_ptr<const Recipe>& recipe : plan.recipes) {
      Recipe wrong = *recipe;
      // It asks when it runs, so that a recipe may turn wrong.
      wrong.run = [this, right = recipe](const std::vector<at::Tensor>& inputs) {
        std::vector<at::Tensor> results = right->run(inputs);
        if (!is_wrong_(*right)) return results;
        for (at::Tensor& result : results) {
          if (result.defined()) result = at::zeros_like(result);
        }
        return results;
      };
      recipe = std::make_shared<const Recipe>(std::move(wrong));
    }
    return plan;
  }

  IsWrong is_wrong_;
};

class TrainingUnder {
 public:
  explicit TrainingUnder(PlannedMode& mode) : mode_(mode) {
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
  TrainingUnder training(mode);
  for (int64_t number = 1; number <= 4; ++number) (void)training.gradients_of_step(number);
  // The norms, their activations and the masked activations that convolutions read.
  EXPECT_GE(shortcuts_of(*mode.plan()), 9);
  EXPECT_EQ(mode.report().replayed_after_mismatch, 0);
  EXPECT_EQ(mode.report().kept_after_mismatch, 0);
}

TEST(Shortcuts, give_way_to_their_operators_where_they_are_not_exact) {
  PlannedMode right("echo", true, policy_of(parse_mode("echo")));
  WrongRecipes wrong([](const Recipe& recipe) { return recipe.is_shortcut; });
  TrainingUnder expected(right);
  TrainingUnder training(wrong);
  int64_t shortcuts = 0;
  for (int64_t number = 1; number <= 7; ++number) {
    const std::vector<at::Tensor> a = expected.gradients_of_step(number);
    const std::vector<at::Tensor> b = training.gradients_of_step(number);
    if (number == 2) shortcuts = shortcuts_of(*wrong.plan());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << number;
  }
  EXPECT_GT(shortcuts, 0);
  // Those that are tried next are wrong too: of the activation, where the masked one's was wrong.
  EXPECT_GT(wrong.report().replayed_after_mismatch, shortcuts);
  EXPECT_EQ(wrong.report().kept_after_mismatch, 0);
  EXPECT_EQ(shortcuts_of(*wrong.plan()), 0);
  EXPECT_GT(wrong.report().counters.recipes_run, 0);
}

int64_t replays_of(const TreatmentPlan& plan) {
  return static_cast<int64_t>(plan.recipes.size()) - shortcuts_of(plan);
}

TEST(Replays, that_are_not_exact_are_given_up_for_keeping_and_counted) {
  PlannedMode right("echo", true, policy_of(parse_mode("echo")));
  WrongRecipes wrong([](const Recipe& recipe) { return !recipe.is_shortcut; });
  TrainingUnder expected(right);
  TrainingUnder training(wrong);
  int64_t replays = 0;
  for (int64_t number = 1; number <= 8; ++number) {
    const std::vector<at::Tensor> a = expected.gradients_of_step(number);
    const std::vector<at::Tensor> b = training.gradients_of_step(number);
    if (number == 2) replays = replays_of(*wrong.plan());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << number;
  }
  EXPECT_GT(replays, 0);
  EXPECT_EQ(replays_of(*wrong.plan()), 0);
  EXPECT_GT(wrong.report().kept_after_mismatch, 0);
  EXPECT_GE(wrong.report().counters.mismatches, wrong.report().kept_after_mismatch);
  EXPECT_GT(wrong.report().plan.held_bytes, right.report().plan.held_bytes);
  EXPECT_GT(shortcuts_of(*wrong.plan()), 0) << "what was exact goes on";
  EXPECT_GT(wrong.report().counters.recipes_run, 0);
}

TEST(Replays, that_turn_wrong_once_the_plan_is_followed_are_an_error_and_then_given_up) {
  bool turned = false;
  PlannedMode right("echo", true, policy_of(parse_mode("echo")));
  WrongRecipes wrong([&](const Recipe& recipe) { return turned && !recipe.is_shortcut; });
  TrainingUnder expected(right);
  TrainingUnder training(wrong);
  for (int64_t number = 1; number <= 5; ++number) {
    static_cast<void>(expected.gradients_of_step(number));
    static_cast<void>(training.gradients_of_step(number));
  }
  turned = true;
  int errors = 0;
  bool last_is_right = false;
  for (int64_t number = 6; number <= 40 && !last_is_right; ++number) {
    const std::vector<at::Tensor> a = expected.gradients_of_step(number);
    try {
      const std::vector<at::Tensor> b = training.gradients_of_step(number);
      for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << number;
      last_is_right = true;
    } catch (const c10::Error&) {
      ++errors;
      wrong.end_step();
    }
  }
  EXPECT_GT(errors, 0);
  EXPECT_TRUE(last_is_right);
  EXPECT_EQ(wrong.report().counters.mismatches, errors);
  EXPECT_GE(wrong.report().kept_after_mismatch, errors);
}

}  // namespace
}  // namespace noisemark::memopt
