#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/upsample_nearest2d.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memopt/mode.h"

namespace noisemark::memopt::test {

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
