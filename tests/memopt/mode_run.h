#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/modes/budget_mode.h"
#include "memopt/modes/planned_mode.h"
#include "tests/memopt/nets.h"

/// Any model under any mode, for tests that hold for modes of every kind.
namespace noisemark::memopt::test {

/// A mode of each kind: makes values again, encodes, moves, rounds, rounds at random, and plans
/// within a budget. The last two are spelled for a model by mode_for().
inline constexpr std::array kModesOfEveryKind = {"mirror+echo", "echo+attn", "gist",
                                                 "offload:all", "dpr8",      "q4",
                                                 "echo+dpr8",   "budget",    "budget,error"};

/// gtest takes letters and digits alone.
inline std::string plain_name(std::string mode) {
  std::replace_if(
      mode.begin(), mode.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return mode;
}

struct TestModel {
  ModelView view;
  std::function<at::Tensor()> loss;                             ///< one forward pass
  at::Generator generator = at::detail::createCPUGenerator(1);  ///< its draws are the model's alone
};
/// Makes a model after the process's generator was seeded, so that all models of it have the same
/// weights.
using MakeModel = std::function<TestModel()>;

/// A U-Net in small with ReLU, max pooling, dropout and attention.
inline TestModel block_model(bool channels_last = false) {
  TestModel model;
  const auto net = std::make_shared<BlockNet>(16, /*relu=*/true);
  net->pools = true;
  net->generator = model.generator;
  at::Tensor x = at::randn({2, 3, 8, 8});
  if (channels_last) x = x.contiguous(at::MemoryFormat::ChannelsLast);
  model.view = net->view();
  model.loss = [net, x] { return net->forward(x).square().mean(); };
  return model;
}

/// The step from which on a model that changes is another one: the plan is followed from the
/// fourth.
inline constexpr int64_t kChange = 6;

/// A model under a mode.
class ModeRun {
 public:
  ModeRun(const std::string& mode, const MakeModel& make) : ModeRun(make_mode(mode), make) {}
  ModeRun(std::unique_ptr<Mode> mode, const MakeModel& make) : mode_(std::move(mode)) {
    at::manual_seed(31);
    model_ = make();
    model_.view.seed = 5;
    mode_->attach(model_.view);
  }

  /// One whole step. What is drawn in it depends on its number alone.
  std::vector<at::Tensor> step(int64_t number) {
    begin(number);
    forward().backward();
    mode_->end_step();
    return take_gradients();
  }

  void begin(int64_t number) {
    {
      const std::lock_guard<std::mutex> lock(model_.generator.mutex());
      model_.generator.set_current_seed(static_cast<uint64_t>(100 + number));
    }
    mode_->begin_step(number);
  }

  at::Tensor forward() {
    const SavedTensorScope scope(*mode_);
    return model_.loss();
  }

  std::vector<at::Tensor> take_gradients() {
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : parameters()) {
      const at::Tensor& gradient = parameter.grad();
      gradients.push_back(gradient.defined() ? gradient.detach().clone()
                                             : at::zeros_like(parameter.detach()));
      parameter.mutable_grad() = at::Tensor();
    }
    return gradients;
  }

  [[nodiscard]] std::vector<at::Tensor> parameters() const {
    std::vector<at::Tensor> parameters;
    for (const auto& [name, parameter] : model_.view.parameters) {
      if (parameter.requires_grad()) parameters.push_back(parameter);
    }
    return parameters;
  }

  [[nodiscard]] Mode& mode() { return *mode_; }
  [[nodiscard]] TestModel& model() { return model_; }
  [[nodiscard]] PlannedModeReport report() {
    return dynamic_cast<const PlannedMode&>(*mode_).report();
  }

 private:
  std::unique_ptr<Mode> mode_;
  TestModel model_;
};

/// The error of the gradient, by "budget,error".
inline constexpr double kAllowedError = 0.05;

/// The spelling of a mode of kModesOfEveryKind for a model: a budget halfway between all that it
/// saves and the least that it must.
inline std::string mode_for(const std::string& kind, const MakeModel& make) {
  if (!kind.starts_with("budget")) return kind;
  constexpr BudgetTarget kTarget = BudgetTarget::kPeakSaved;
  constexpr int64_t kPlenty = int64_t{1} << 40;
  ModeRun plenty(spell_budget({kTarget, kPlenty}), make);
  for (int64_t number = 1; number <= plenty.mode().forwards_until_steady() + 1; ++number) {
    static_cast<void>(plenty.step(number));
  }
  const auto planner = dynamic_cast<const BudgetMode&>(plenty.mode()).planner();
  // A gradient of zero measures nothing.
  if (planner == nullptr) return spell_budget({kTarget, int64_t{1} << 30, kAllowedError});
  const int64_t most = planner->curve().front().peak_saved_bytes;
  // Another session's costs may find no smaller plans than these.
  const int64_t sure = planner->sure_bytes();
  const int64_t bytes = std::max((most + planner->smallest_bytes()) / 2, sure);
  const std::optional<double> error =
      kind == "budget" ? std::nullopt : std::optional(kAllowedError);
  return spell_budget({kTarget, bytes, error});
}

/// The mode whose gradients a mode's must be, bit for bit: the exact ones where it is lossless, or
/// those of an untroubled run of the same. A budget with an error is planned by what operators
/// took, so two runs round differently.
inline std::string reference_of(const std::string& mode) {
  const bool planned = mode.find(",error") != std::string::npos;
  return planned || make_mode(mode)->lossless() ? "none" : mode;
}

/// `b` is the relative L2 distance `bound` from `a` at most.
inline void expect_near(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b,
                        double bound) {
  ASSERT_EQ(a.size(), b.size());
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]).square().sum().item<double>();
    size += a[i].square().sum().item<double>();
  }
  EXPECT_LE(difference, bound * bound * size);  // NaN fails too
}

inline void expect_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_FALSE(at::isnan(a[i]).any().item<bool>()) << i;
    EXPECT_TRUE(a[i].equal(b[i])) << i;
  }
}

/// Compares reference_of(mode) and a run under the mode, in a step with the same number.
inline void expect_right(const std::string& mode, const std::vector<at::Tensor>& reference,
                         const std::vector<at::Tensor>& got) {
  // The error was measured on another step, with other dropout, so twice as much is allowed.
  if (mode.find(",error") != std::string::npos) {
    return expect_near(reference, got, 2 * kAllowedError);
  }
  expect_equal(reference, got);
}

inline int64_t live_bytes() {
  return cpu_allocation_source().live_bytes();
}

}  // namespace noisemark::memopt::test
