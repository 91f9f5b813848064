#pragma once

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/modes/planned_mode.h"
#include "tests/memopt/nets.h"

namespace noisemark::memopt::test {

/// The outcome of one training step, and the bytes that lived between forward and backward.
struct StepOutcome {
  at::Tensor loss;
  std::vector<at::Tensor> gradients;
  int64_t held_bytes = 0;
};

/// A U-Net in small with ReLU, max pooling, dropout and attention under a mode. Two of the same
/// mode, or of different ones, have the same weights and batch.
class TrainedNet {
 public:
  explicit TrainedNet(const std::string& mode, bool bf16 = false)
      : mode_(make_mode(mode)), bf16_(bf16) {
    at::manual_seed(31);
    net_ = std::make_unique<BlockNet>(16, /*relu=*/true);
    net_->pools = true;
    x_ = at::randn({2, 3, 32, 32});
    target_ = at::randn({2, 3, 32, 32});
    ModelView view = net_->view();
    view.seed = 5;
    mode_->attach(view);
  }

  /// The next one. Dropout depends on its number alone.
  StepOutcome step() {
    at::manual_seed(static_cast<uint64_t>(100 + ++steps_));
    net_->zero_grad();
    mode_->begin_step(steps_);
    const int64_t before = cpu_allocation_source().live_bytes();
    StepOutcome outcome;
    at::Tensor loss;
    {
      const SavedTensorScope scope(*mode_);
      at::autocast::set_autocast_enabled(at::kCPU, bf16_);
      const at::Tensor prediction = net_->forward(x_);
      at::autocast::set_autocast_enabled(at::kCPU, false);
      at::autocast::clear_cache();
      loss = at::mse_loss(prediction.to(at::kFloat), target_);
    }
    outcome.held_bytes = cpu_allocation_source().live_bytes() - before;
    loss.backward();
    mode_->end_step();
    outcome.loss = loss.detach();
    outcome.gradients = net_->gradients();
    net_->zero_grad();
    return outcome;
  }

  StepOutcome steady_step() {
    while (steps_ < mode_->forwards_until_steady()) step();
    return step();
  }

  [[nodiscard]] PlannedMode& planned() { return dynamic_cast<PlannedMode&>(*mode_); }
  [[nodiscard]] BlockNet& net() { return *net_; }

 private:
  std::unique_ptr<Mode> mode_;
  bool bf16_;
  std::unique_ptr<BlockNet> net_;
  at::Tensor x_, target_;
  int64_t steps_ = 0;
};

inline void expect_same(const StepOutcome& a, const StepOutcome& b) {
  EXPECT_TRUE(a.loss.equal(b.loss));
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    EXPECT_TRUE(a.gradients[i].equal(b.gradients[i])) << i;
  }
}

/// The next `steps` of both, which begin at the same one.
inline void expect_same_steps(TrainedNet& a, TrainedNet& b, int steps) {
  for (int i = 0; i < steps; ++i) {
    SCOPED_TRACE(i);
    expect_same(a.step(), b.step());
  }
}

/// Six steps of a mode, of which it follows its plan in the last, have the bits of `none`; and the
/// mode was never surprised.
inline PlannedModeReport expect_six_steps_of_none(TrainedNet& mode, bool bf16 = false) {
  TrainedNet none("none", bf16);
  expect_same_steps(none, mode, 6);
  PlannedModeReport report = mode.planned().report();
  EXPECT_EQ(report.missing_reason, "");
  EXPECT_EQ(report.counters.departures, 0);
  EXPECT_EQ(report.counters.mismatches, 0);
  return report;
}

}  // namespace noisemark::memopt::test
