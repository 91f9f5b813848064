#include "suite/models/ho_blocks.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>

#include "suite/models/layers.h"

namespace noisemark::suite::ho {
namespace {

at::Tensor activate(const at::Tensor& x, baselines::Activation activation) {
  return activation == baselines::Activation::kRelu ? at::relu(x) : at::silu(x);
}

torch::nn::GroupNorm group_norm(int64_t channels, const BlockOptions& options) {
  return torch::nn::GroupNorm(
      torch::nn::GroupNormOptions(options.groups, channels).eps(options.eps));
}

at::Tensor norm_act(const at::Tensor& x, const torch::nn::GroupNorm& norm,
                    const BlockOptions& options) {
  return options.ops->group_norm_act(x, options.groups, norm->weight, norm->bias, options.eps,
                                     options.activation);
}

}  // namespace

ResnetBlock::ResnetBlock(int64_t in_channels, int64_t out_channels, const BlockOptions& options)
    : options_(options) {
  norm1_ = register_module("norm1", group_norm(in_channels, options));
  conv1_ = register_module("conv1", same_conv(in_channels, out_channels, 3));
  time_emb_proj_ =
      register_module("time_emb_proj", torch::nn::Linear(options.time_channels, out_channels));
  norm2_ = register_module("norm2", group_norm(out_channels, options));
  conv2_ = register_module("conv2", same_conv(out_channels, out_channels, 3));
  if (in_channels != out_channels) {
    conv_shortcut_ = register_module("conv_shortcut", same_conv(in_channels, out_channels, 1));
  }
}

at::Tensor ResnetBlock::forward(const at::Tensor& x, const at::Tensor& time) {
  at::Tensor h = conv1_(norm_act(x, norm1_, options_));
  const at::Tensor shift = time_emb_proj_(activate(time, options_.activation));
  h = h + shift.unsqueeze(-1).unsqueeze(-1);
  h = norm_act(h, norm2_, options_);
  h = conv2_(at::dropout(h, options_.dropout, is_training()));
  return (conv_shortcut_ ? conv_shortcut_(x) : x) + h;
}

SelfAttention::SelfAttention(int64_t channels, const BlockOptions& options) : options_(options) {
  group_norm_ = register_module("group_norm", group_norm(channels, options));
  to_q_ = register_module("to_q", torch::nn::Linear(channels, channels));
  to_k_ = register_module("to_k", torch::nn::Linear(channels, channels));
  to_v_ = register_module("to_v", torch::nn::Linear(channels, channels));
  out_proj_ =
      add_container(*this, "to_out")->register_module("0", torch::nn::Linear(channels, channels));
}

at::Tensor SelfAttention::forward(const at::Tensor& x) {
  const at::Tensor normed = options_.ops->group_norm(x, options_.groups, group_norm_->weight,
                                                     group_norm_->bias, options_.eps);
  const at::Tensor tokens = normed.flatten(2).transpose(1, 2);  // [N, H * W, C]
  const at::Tensor q = to_q_(tokens).unsqueeze(1);
  const at::Tensor k = to_k_(tokens).unsqueeze(1);
  const at::Tensor v = to_v_(tokens).unsqueeze(1);
  const at::Tensor out = out_proj_(at::scaled_dot_product_attention(q, k, v).squeeze(1));
  return out.transpose(1, 2).reshape(x.sizes()) + x;
}

Downsample::Downsample(int64_t channels, bool max_pool, baselines::Activation activation)
    : max_pool_(max_pool), activation_(activation) {
  auto options = torch::nn::Conv2dOptions(channels, channels, 3);
  options = max_pool ? options.padding(1) : options.stride(2);
  conv_ = register_module("conv", torch::nn::Conv2d(options));
}

at::Tensor Downsample::forward(const at::Tensor& x) {
  if (max_pool_) return at::max_pool2d(activate(conv_(x), activation_), 2);
  return conv_(at::constant_pad_nd(x, {0, 1, 0, 1}));
}

Upsample::Upsample(int64_t channels) {
  conv_ = register_module("conv", same_conv(channels, channels, 3));
}

at::Tensor Upsample::forward(const at::Tensor& x) {
  return conv_(upsample_twice(x));
}

}  // namespace noisemark::suite::ho
