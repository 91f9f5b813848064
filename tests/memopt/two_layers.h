#pragma once

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "memopt/planned_mode.h"
#include "memopt/saved_tensor_scope.h"

namespace noisemark::memopt::test {

/// Two linear layers under a mode, and between them what a test is about. Those of one seed have
/// the same weights and input.
class TwoLayers {
 public:
  TwoLayers(const char* mode, uint64_t seed, c10::Device device = c10::kCPU)
      : mode_(make_mode(mode)) {
    at::manual_seed(seed);
    ModelView view;
    for (at::Tensor& weight : weights_) {
      weight = at::randn({128, 128}).mul_(0.1).to(device).set_requires_grad(true);
      view.parameters.emplace_back(std::to_string(view.parameters.size()) + ".weight", weight);
    }
    x_ = at::randn({128, 128}).to(device);
    mode_->attach(view);
  }

  [[nodiscard]] PlannedMode& planned() { return dynamic_cast<PlannedMode&>(*mode_); }

 protected:
  /// The gradients of one step, in which `between` makes the second layer's input from what the
  /// first one gave.
  template <class Between>
  std::vector<at::Tensor> step_with(const Between& between) {
    return backward_of(forward_with(between));
  }

  /// The first half of a step: its loss.
  template <class Between>
  at::Tensor forward_with(const Between& between) {
    for (at::Tensor& weight : weights_) weight.mutable_grad() = at::Tensor();
    mode_->begin_step(++steps_);
    const SavedTensorScope scope(*mode_);
    return at::linear(between(at::linear(x_, weights_[0])), weights_[1]).square().sum();
  }

  /// The second.
  std::vector<at::Tensor> backward_of(const at::Tensor& loss) {
    loss.backward();
    mode_->end_step();
    return {weights_[0].grad().clone(), weights_[1].grad().clone()};
  }

 private:
  std::unique_ptr<Mode> mode_;
  std::array<at::Tensor, 2> weights_;
  at::Tensor x_;
  int64_t steps_ = 0;
};

}  // namespace noisemark::memopt::test
