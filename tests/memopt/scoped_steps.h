#pragma once

#include <ATen/Context.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <chrono>
#include <memory>

#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/modes/mode.h"
#include "memopt/record/history.h"
#include "tests/memopt/nets.h"

namespace noisemark::memopt::test {

/// Training steps of a small network, in the scope of mode "none", under a watch of calls, and
/// without either, each timed.
class ScopedSteps {
 public:
  /// `size`: of the images.
  explicit ScopedSteps(int64_t size) {
    at::manual_seed(1);
    net_ = std::make_unique<SmallNet>();
    x_ = at::randn({4, 3, size, size});
    target_ = at::randn({4, 3, size, size});
  }

  double without_scope() {
    const auto begin = Clock::now();
    net_->train_step(x_, target_);
    return seconds_since(begin);
  }

  double in_scope() {
    const auto begin = Clock::now();
    none_->begin_step(++number_);
    at::Tensor loss;
    {
      const SavedTensorScope scope(*none_);
      loss = at::mse_loss(net_->forward(x_), target_);
    }
    loss.backward();
    none_->end_step();
    net_->update();
    net_->average();
    net_->zero_grad();
    return seconds_since(begin);
  }

  /// Looks at a forward pass as every planned mode does.
  double under_call_watch() {
    const auto begin = Clock::now();
    at::Tensor loss;
    {
      const CallWatch watch(graph_);
      loss = at::mse_loss(net_->forward(x_), target_);
    }
    loss.backward();
    net_->update();
    net_->average();
    net_->zero_grad();
    return seconds_since(begin);
  }

 private:
  using Clock = std::chrono::steady_clock;

  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  std::unique_ptr<SmallNet> net_;
  std::unique_ptr<Mode> none_ = make_mode("none");
  StepGraph graph_;
  at::Tensor x_, target_;
  int64_t number_ = 0;
};

}  // namespace noisemark::memopt::test
