#include "suite/models/lucid_blocks.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>

#include "suite/models/layers.h"

namespace noisemark::suite::lucid {
namespace {

constexpr int64_t kMemoryTokens = 4;  // num_mem_kv in the peer

torch::nn::Conv2d qkv_conv(int64_t channels, int64_t hidden) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, 3 * hidden, 1).bias(false));
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
    : ops_(*options.ops) {
  const int64_t hidden = options.heads * options.head_channels;
  norm_ = register_module("norm", std::make_shared<RmsNorm>(channels));
  mem_kv_ = register_parameter("mem_kv",
                               at::randn({2, options.heads, options.head_channels, kMemoryTokens}));
  to_qkv_ = register_module("to_qkv", qkv_conv(channels, hidden));
  const auto to_out = add_container(*this, "to_out");
  out_proj_ = to_out->register_module("0", same_conv(hidden, channels, 1));
  out_norm_ = to_out->register_module("1", std::make_shared<RmsNorm>(channels));
}

at::Tensor LinearAttention::forward(const at::Tensor& x) {
  const at::Tensor qkv = to_qkv_(ops_.rms_norm(x, norm_->g));
  return ops_.rms_norm(out_proj_(ops_.linear_attention(qkv, mem_kv_)), out_norm_->g);
}

Attention::Attention(int64_t channels, const BlockOptions& options) : ops_(*options.ops) {
  const int64_t hidden = options.heads * options.head_channels;
  norm_ = register_module("norm", std::make_shared<RmsNorm>(channels));
  mem_kv_ = register_parameter("mem_kv",
                               at::randn({2, options.heads, kMemoryTokens, options.head_channels}));
  to_qkv_ = register_module("to_qkv", qkv_conv(channels, hidden));
  to_out_ = register_module("to_out", same_conv(hidden, channels, 1));
}

at::Tensor Attention::forward(const at::Tensor& x) {
  const at::Tensor qkv = to_qkv_(ops_.rms_norm(x, norm_->g));
  return to_out_(ops_.softmax_attention(qkv, mem_kv_));
}

}  // namespace noisemark::suite::lucid
