#include "suite/models/lucid_blocks.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>

#include <cmath>
#include <utility>

#include "suite/models/layers.h"

namespace noisemark::suite::lucid {
namespace {

constexpr int64_t kMemoryTokens = 4;  // num_mem_kv in the peer

torch::nn::Conv2d qkv_conv(int64_t channels, int64_t hidden) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, 3 * hidden, 1).bias(false));
}

// [N, heads * d, H, W] -> [N, heads, d, H * W]
at::Tensor split_heads(const at::Tensor& x, int64_t heads, int64_t head_channels) {
  return x.reshape({x.size(0), heads, head_channels, x.size(2) * x.size(3)});
}

// The learned keys or values of one sample, repeated for a batch without a copy.
at::Tensor for_batch(const at::Tensor& memory, int64_t batch) {
  return memory.unsqueeze(0).expand({batch, -1, -1, -1});
}

double inverse_sqrt(int64_t n) {
  return 1.0 / std::sqrt(static_cast<double>(n));
}

}  // namespace

RmsNorm::RmsNorm(int64_t channels) {
  g = register_parameter("g", at::ones({1, channels, 1, 1}));
}

Block::Block(int64_t in_channels, int64_t out_channels, double dropout, const baselines::Ops& ops)
    : dropout_(dropout), ops_(ops) {
  proj_ = register_module("proj", same_conv(in_channels, out_channels, 3));
  norm_ = register_module("norm", std::make_shared<RmsNorm>(out_channels));
}

at::Tensor Block::forward(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& shift) {
  const at::Tensor activated = ops_.rms_norm_film_silu(proj_(x), norm_->g, scale, shift);
  return at::dropout(activated, dropout_, is_training());
}

ResnetBlock::ResnetBlock(int64_t in_channels, int64_t out_channels, const BlockOptions& options) {
  time_proj_ =
      add_container(*this, "mlp")
          ->register_module("1", torch::nn::Linear(options.time_channels, 2 * out_channels));
  block1_ = register_module(
      "block1", std::make_shared<Block>(in_channels, out_channels, options.dropout, *options.ops));
  block2_ = register_module("block2",
                            std::make_shared<Block>(out_channels, out_channels, 0.0, *options.ops));
  if (in_channels != out_channels) {
    res_conv_ = register_module("res_conv", same_conv(in_channels, out_channels, 1));
  }
}

at::Tensor ResnetBlock::forward(const at::Tensor& x, const at::Tensor& time) {
  const at::Tensor film = time_proj_(at::silu(time)).unsqueeze(-1).unsqueeze(-1);
  const std::vector<at::Tensor> scale_shift = film.chunk(2, 1);
  at::Tensor h = block1_->forward(x, scale_shift[0], scale_shift[1]);
  h = block2_->forward(h, {}, {});
  return h + (res_conv_ ? res_conv_(x) : x);
}

LinearAttention::LinearAttention(int64_t channels, const BlockOptions& options)
    : heads_(options.heads), head_channels_(options.head_channels), ops_(*options.ops) {
  const int64_t hidden = heads_ * head_channels_;
  norm_ = register_module("norm", std::make_shared<RmsNorm>(channels));
  mem_kv_ = register_parameter("mem_kv", at::randn({2, heads_, head_channels_, kMemoryTokens}));
  to_qkv_ = register_module("to_qkv", qkv_conv(channels, hidden));
  const auto to_out = add_container(*this, "to_out");
  out_proj_ = to_out->register_module("0", same_conv(hidden, channels, 1));
  out_norm_ = to_out->register_module("1", std::make_shared<RmsNorm>(channels));
}

at::Tensor LinearAttention::forward(const at::Tensor& x) {
  const std::vector<at::Tensor> qkv = to_qkv_(ops_.rms_norm(x, norm_->g)).chunk(3, 1);
  const std::vector<at::Tensor> memory = mem_kv_.unbind(0);
  at::Tensor q = split_heads(qkv[0], heads_, head_channels_);
  at::Tensor k = split_heads(qkv[1], heads_, head_channels_);
  at::Tensor v = split_heads(qkv[2], heads_, head_channels_);
  k = at::cat({for_batch(memory[0], x.size(0)), k}, -1);
  v = at::cat({for_batch(memory[1], x.size(0)), v}, -1);
  q = q.softmax(-2) * inverse_sqrt(head_channels_);
  k = k.softmax(-1);
  const at::Tensor context = at::einsum("bhdn,bhen->bhde", {k, v});
  const at::Tensor out = at::einsum("bhde,bhdn->bhen", {context, q});
  const at::Tensor joined = out.reshape({x.size(0), heads_ * head_channels_, x.size(2), x.size(3)});
  return ops_.rms_norm(out_proj_(joined), out_norm_->g);
}

Attention::Attention(int64_t channels, const BlockOptions& options)
    : heads_(options.heads), head_channels_(options.head_channels), ops_(*options.ops) {
  const int64_t hidden = heads_ * head_channels_;
  norm_ = register_module("norm", std::make_shared<RmsNorm>(channels));
  mem_kv_ = register_parameter("mem_kv", at::randn({2, heads_, kMemoryTokens, head_channels_}));
  to_qkv_ = register_module("to_qkv", qkv_conv(channels, hidden));
  to_out_ = register_module("to_out", same_conv(hidden, channels, 1));
}

at::Tensor Attention::forward(const at::Tensor& x) {
  const std::vector<at::Tensor> qkv = to_qkv_(ops_.rms_norm(x, norm_->g)).chunk(3, 1);
  const std::vector<at::Tensor> memory = mem_kv_.unbind(0);
  const at::Tensor q = split_heads(qkv[0], heads_, head_channels_).transpose(-1, -2);
  at::Tensor k = split_heads(qkv[1], heads_, head_channels_).transpose(-1, -2);
  at::Tensor v = split_heads(qkv[2], heads_, head_channels_).transpose(-1, -2);
  k = at::cat({for_batch(memory[0], x.size(0)), k}, -2);
  v = at::cat({for_batch(memory[1], x.size(0)), v}, -2);
  const at::Tensor similarity =
      at::einsum("bhid,bhjd->bhij", {q, k}) * inverse_sqrt(head_channels_);
  const at::Tensor out = at::einsum("bhij,bhjd->bhid", {similarity.softmax(-1), v});
  const at::Tensor joined =
      out.transpose(-1, -2).reshape({x.size(0), heads_ * head_channels_, x.size(2), x.size(3)});
  return to_out_(joined);
}

}  // namespace noisemark::suite::lucid
