#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <optional>
#include <vector>

namespace noisemark::memopt::test {

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

}  // namespace noisemark::memopt::test
