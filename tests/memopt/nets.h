#pragma once

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/modes/mode.h"
#include "memopt/modes/planned_mode.h"

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

/// A real, small network with what the benchmarks' U-Nets are made of: convolutions, group norms,
/// SiLU and attention, trained by fused Adam with an average of its weights.
class SmallNet {
 public:
  explicit SmallNet(int64_t channels = 16) : channels_(channels) {
    const int64_t c = channels;
    for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
             {c, 3, 3, 3}, {c}, {c}, {c}, {c, c, 3, 3}, {c}, {3 * c, c, 1, 1}, {3, c, 3, 3}, {3}}) {
      parameters.push_back(at::randn(shape).mul_(0.1).set_requires_grad(true));
    }
    for (const at::Tensor& p : parameters) {
      ema.push_back(p.detach().clone());
      exp_avg.push_back(at::zeros_like(p.detach()));
      exp_avg_sq.push_back(at::zeros_like(p.detach()));
      steps.push_back(at::zeros({}));
    }
  }

  /// x [N, 3, H, W] -> [N, 3, H, W]
  at::Tensor forward(const at::Tensor& x) const {
    const auto& p = parameters;
    at::Tensor h = at::conv2d(x, p[0], p[1], 1, 1);
    h = at::silu(at::group_norm(h, 4, p[2], p[3]));
    h = h + at::conv2d(h, p[4], p[5], 1, 1);
    const auto qkv = at::conv2d(h, p[6]).flatten(2).chunk(3, 1);
    const at::Tensor weight = at::softmax(at::bmm(qkv[0].transpose(1, 2), qkv[1]), -1);
    h = h + at::bmm(qkv[2], weight.transpose(1, 2)).view_as(h);
    return at::conv2d(h, p[7], p[8], 1, 1);
  }

  void update() {
    const c10::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& p : parameters) gradients.push_back(p.grad());
    for (at::Tensor& s : steps) s.add_(1);
    at::_fused_adam_(parameters, gradients, exp_avg, exp_avg_sq, {}, steps, 1e-3, 0.9, 0.999, 0,
                     1e-8, false, false);
  }

  void average() {
    const c10::NoGradGuard no_grad;
    for (size_t i = 0; i < ema.size(); ++i) ema[i].lerp_(parameters[i], 0.1);
  }

  void zero_grad() {
    for (at::Tensor& p : parameters) p.mutable_grad() = at::Tensor();
  }

  /// One whole step without observers.
  void train_step(const at::Tensor& x, const at::Tensor& target) {
    at::mse_loss(forward(x), target).backward();
    update();
    average();
    zero_grad();
  }

  [[nodiscard]] std::vector<at::Tensor> optimizer_state() const {
    std::vector<at::Tensor> state = exp_avg;
    state.insert(state.end(), exp_avg_sq.begin(), exp_avg_sq.end());
    state.insert(state.end(), steps.begin(), steps.end());
    return state;
  }

  std::vector<at::Tensor> parameters, ema, exp_avg, exp_avg_sq, steps;

 private:
  int64_t channels_;
};

/// Down block, attention block, upsampling and up block of a U-Net, with dropout and skip, in
/// functional form. Parameters have random values everywhere: norm weights of one and biases of
/// zero would hide rounding differences.
class BlockNet {
 public:
  static constexpr int64_t kGroups = 4;

  explicit BlockNet(int64_t channels = 16, bool relu = false) : channels_(channels), relu_(relu) {
    const int64_t c = channels;
    add("stem.weight", {c, 3, 3, 3});
    add("stem.bias", {c});
    add_block("down", c, c);
    add("reduce.weight", {c, c, 3, 3});
    add("reduce.bias", {c});
    add("attention.norm.weight", {c});
    add("attention.norm.bias", {c});
    for (const char* name : {"q", "k", "v", "out"}) {
      add(std::string("attention.") + name + ".weight", {c, c});
    }
    add("expand.weight", {c, c, 3, 3});
    add("expand.bias", {c});
    add_block("up", 2 * c, c);
    add("up.shortcut.weight", {c, 2 * c, 1, 1});
    add("head.weight", {3, c, 3, 3});
    add("head.bias", {3});
  }

  /// x [N, 3, H, W] -> [N, 3, H, W]; H and W even.
  at::Tensor forward(const at::Tensor& x) const {
    const at::Tensor stem = at::conv2d(x, p("stem.weight"), p("stem.bias"), 1, 1);
    const at::Tensor skip = stem + block("down", stem);
    at::Tensor h = at::conv2d(skip, p("reduce.weight"), p("reduce.bias"), pools ? 1 : 2, 1);
    if (pools) h = at::max_pool2d(act(h), 2);
    h = h + attention(h);
    h = at::upsample_nearest2d(h, std::vector<int64_t>{2 * h.size(2), 2 * h.size(3)});
    h = at::conv2d(h, p("expand.weight"), p("expand.bias"), 1, 1);
    h = at::cat({h, skip}, 1);
    h = at::conv2d(h, p("up.shortcut.weight")) + block("up", h);
    return at::conv2d(h, p("head.weight"), p("head.bias"), 1, 1);
  }

  [[nodiscard]] ModelView view() const {
    ModelView view;
    view.parameters = parameters_;
    return view;
  }

  void zero_grad() {
    for (auto& [name, parameter] : parameters_) parameter.mutable_grad() = at::Tensor();
  }

  [[nodiscard]] std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> gradients;
    for (const auto& [name, parameter] : parameters_) gradients.push_back(parameter.grad().clone());
    return gradients;
  }

  double dropout = 0.1;
  bool pools = false;  ///< halves by max pooling instead of a convolution
  /// Draws the masks of dropout; empty: the process's does.
  std::optional<at::Generator> generator;

 private:
  void add(const std::string& name, const std::vector<int64_t>& shape) {
    parameters_.emplace_back(name, at::randn(shape).mul_(0.2).set_requires_grad(true));
    index_[name] = parameters_.size() - 1;
  }

  void add_block(const std::string& name, int64_t in, int64_t out) {
    add(name + ".norm1.weight", {in});
    add(name + ".norm1.bias", {in});
    add(name + ".conv1.weight", {out, in, 3, 3});
    add(name + ".norm2.weight", {out});
    add(name + ".norm2.bias", {out});
    add(name + ".conv2.weight", {out, out, 3, 3});
  }

  [[nodiscard]] const at::Tensor& p(const std::string& name) const {
    return parameters_[index_.at(name)].second;
  }

  [[nodiscard]] at::Tensor act(const at::Tensor& x) const {
    return relu_ ? at::relu(x) : at::silu(x);
  }

  at::Tensor block(const std::string& name, const at::Tensor& x) const {
    at::Tensor h =
        act(at::group_norm(x, kGroups, p(name + ".norm1.weight"), p(name + ".norm1.bias")));
    h = at::conv2d(h, p(name + ".conv1.weight"), {}, 1, 1);
    h = act(at::group_norm(h, kGroups, p(name + ".norm2.weight"), p(name + ".norm2.bias")));
    h = dropped_out(h);
    return at::conv2d(h, p(name + ".conv2.weight"), {}, 1, 1);
  }

  [[nodiscard]] at::Tensor dropped_out(const at::Tensor& h) const {
    if (!generator) return at::dropout(h, dropout, /*train=*/true);
    const at::Tensor kept = at::bernoulli(at::full_like(h.detach(), 1 - dropout), generator);
    return h * (kept / (1 - dropout));
  }

  at::Tensor attention(const at::Tensor& x) const {
    at::Tensor h = at::group_norm(x, kGroups, p("attention.norm.weight"), p("attention.norm.bias"));
    h = h.flatten(2).transpose(1, 2);
    const auto head = [&](const char* name) {
      return at::linear(h, p(std::string("attention.") + name + ".weight")).unsqueeze(1);
    };
    h = at::scaled_dot_product_attention(head("q"), head("k"), head("v")).squeeze(1);
    return at::linear(h, p("attention.out.weight")).transpose(1, 2).reshape(x.sizes());
  }

  int64_t channels_;
  bool relu_;
  std::vector<std::pair<std::string, at::Tensor>> parameters_;
  std::map<std::string, size_t> index_;
};

}  // namespace noisemark::memopt::test
