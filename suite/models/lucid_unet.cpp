#include "suite/models/lucid_unet.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/pixel_unshuffle.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>

#include <cmath>
#include <string>

#include "suite/models/layers.h"
#include "suite/models/module_scope.h"
#include "suite/models/rows.h"

namespace noisemark::suite::lucid {
namespace {

constexpr int64_t kMemoryTokens = 4;  // num_mem_kv in the peer

torch::nn::Conv2d qkv_conv(int64_t channels, int64_t hidden) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, 3 * hidden, 1).bias(false));
}

at::Tensor normed(const at::Tensor& x, const RmsNorm& norm, const baselines::Ops& ops) {
  const ModuleScope scope(norm);
  return ops.rms_norm(x, norm.g);
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
  const ModuleScope scope(*this);
  const at::Tensor projected = run_layer(proj_, x);
  const at::Tensor activated = [&] {
    const ModuleScope inner(*norm_);
    return ops_.rms_norm_film_silu(projected, norm_->g, scale, shift);
  }();
  return suite::dropout(activated, dropout_, is_training());
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
  const ModuleScope scope(*this);
  const at::Tensor film = run_layer(time_proj_, at::silu(time)).unsqueeze(-1).unsqueeze(-1);
  const std::vector<at::Tensor> scale_shift = film.chunk(2, 1);
  at::Tensor h = block1_->forward(x, scale_shift[0], scale_shift[1]);
  h = block2_->forward(h, {}, {});
  return h + (res_conv_ ? run_layer(res_conv_, x) : x);
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
  const ModuleScope scope(*this);
  const at::Tensor qkv = run_layer(to_qkv_, normed(x, *norm_, ops_));
  const at::Tensor attended = [&] {
    RowExchange* const rows = rows_in_force();
    if (rows == nullptr) return ops_.linear_attention(qkv, mem_kv_);
    const QueriesAndKeys all = join_keys(qkv, *rows);
    return baselines::linear_attention_of(all.q, all.k, all.v, mem_kv_);
  }();
  return normed(run_layer(out_proj_, attended), *out_norm_, ops_);
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
  const ModuleScope scope(*this);
  const at::Tensor qkv = run_layer(to_qkv_, normed(x, *norm_, ops_));
  RowExchange* const rows = rows_in_force();
  if (rows == nullptr) return run_layer(to_out_, ops_.softmax_attention(qkv, mem_kv_));
  const QueriesAndKeys all = join_keys(qkv, *rows);
  return run_layer(to_out_, baselines::softmax_attention_of(all.q, all.k, all.v, mem_kv_));
}

namespace {

constexpr double kMaxPeriod = 10000.0;

// Vaswani et al. 2017, sines before cosines. The factor is rounded as the peer rounds it: at
// t = 999 one unit in the last place of a frequency already moves the sine by 1e-4.
at::Tensor sinusoidal_embedding(const at::Tensor& t, int64_t dim, at::ScalarType dtype) {
  const int64_t half = dim / 2;
  const double step = std::log(kMaxPeriod) / static_cast<double>(half - 1);
  const at::Tensor frequencies = (at::arange(half, t.options().dtype(dtype)) * -step).exp();
  const at::Tensor angles = t.unsqueeze(1) * frequencies.unsqueeze(0);
  return at::cat({angles.sin(), angles.cos()}, -1);
}

std::shared_ptr<AttentionLayer> make_attention(int64_t channels, bool full,
                                               const BlockOptions& options) {
  if (full) return std::make_shared<Attention>(channels, options);
  return std::make_shared<LinearAttention>(channels, options);
}

torch::nn::Conv2d resample_conv(const StageOptions& stage) {
  if (stage.resample == Resample::kHalve) {
    return same_conv(4 * stage.channels, stage.out_channels, 1);
  }
  return same_conv(stage.channels, stage.out_channels, 3);
}

std::vector<int64_t> stage_widths(const ModelConfig& config) {
  std::vector<int64_t> widths{config.dim};
  for (const int64_t mult : config.dim_mults) widths.push_back(config.dim * mult);
  return widths;
}

at::Tensor join_skip(Flow& flow) {
  at::Tensor joined = at::cat({flow.h, flow.skips.back()}, 1);
  flow.skips.pop_back();
  return joined;
}

const ModelConfig& checked(const ModelConfig& config) {
  check_common_shape(config);
  check_positive("model.attn_heads", config.attn_heads);
  check_positive("model.attn_dim_head", config.attn_dim_head);
  return config;
}

}  // namespace

Stage::Stage(const StageOptions& stage, const BlockOptions& options) : resample_(stage.resample) {
  block1 = register_module(
      "0", std::make_shared<ResnetBlock>(stage.in_channels, stage.channels, options));
  block2 = register_module(
      "1", std::make_shared<ResnetBlock>(stage.in_channels, stage.channels, options));
  attention = register_module("2", make_attention(stage.channels, stage.full_attention, options));
  if (resample_ == Resample::kKeep) {
    conv_ = register_module("3", resample_conv(stage));
  } else {
    conv_ = add_container(*this, "3")->register_module("1", resample_conv(stage));
  }
}

at::Tensor Stage::resample(const at::Tensor& x) {
  switch (resample_) {
    case Resample::kHalve:
      return run_layer(conv_, at::pixel_unshuffle(x, 2));
    case Resample::kDouble:
      return run_layer(conv_, upsample_twice(x));
    case Resample::kKeep:
      break;
  }
  return run_layer(conv_, x);
}

Unet::Unet(const ModelConfig& config, const baselines::Ops& ops)
    : Denoiser(config.channels, int64_t{1} << (checked(config).dim_mults.size() - 1)),
      dim_(config.dim),
      widths_(stage_widths(config)) {
  const BlockOptions options{4 * dim_, config.dropout, config.attn_heads, config.attn_dim_head,
                             &ops};

  init_conv_ = register_module("init_conv", same_conv(config.channels, dim_, kFirstKernel));
  const auto time_mlp = add_container(*this, "time_mlp");
  time_linear1_ = time_mlp->register_module("1", torch::nn::Linear(dim_, 4 * dim_));
  time_linear2_ = time_mlp->register_module("3", torch::nn::Linear(4 * dim_, 4 * dim_));

  // The peer registers `ups` before the middle and fills it after: names and draws differ in order.
  const auto downs = add_container(*this, "downs");
  const auto ups = add_container(*this, "ups");
  add_down_stages(*downs, options);
  const int64_t width = widths_.back();
  mid_block1_ = register_module("mid_block1", std::make_shared<ResnetBlock>(width, width, options));
  mid_attn_ = register_module("mid_attn", std::make_shared<Attention>(width, options));
  mid_block2_ = register_module("mid_block2", std::make_shared<ResnetBlock>(width, width, options));
  add_up_stages(*ups, options);
  final_res_block_ =
      register_module("final_res_block", std::make_shared<ResnetBlock>(2 * dim_, dim_, options));
  final_conv_ = register_module("final_conv", same_conv(dim_, config.channels, 1));
  list_parts();
}

void Unet::add_down_stages(torch::nn::Module& downs, const BlockOptions& options) {
  const size_t stages = widths_.size() - 1;
  for (size_t i = 0; i < stages; ++i) {
    const bool innermost = i + 1 == stages;
    const StageOptions stage{widths_[i], widths_[i], widths_[i + 1], innermost,
                             innermost ? Resample::kKeep : Resample::kHalve};
    downs_.push_back(
        downs.register_module(std::to_string(i), std::make_shared<Stage>(stage, options)));
  }
}

void Unet::add_up_stages(torch::nn::Module& ups, const BlockOptions& options) {
  const size_t stages = widths_.size() - 1;
  for (size_t i = 0; i < stages; ++i) {
    const int64_t outer = widths_[stages - 1 - i];
    const int64_t inner = widths_[stages - i];
    const bool outermost = i + 1 == stages;
    const StageOptions stage{inner + outer, inner, outer, i == 0,
                             outermost ? Resample::kKeep : Resample::kDouble};
    ups_.push_back(ups.register_module(std::to_string(i), std::make_shared<Stage>(stage, options)));
  }
}

at::Tensor Unet::embed_time(const at::Tensor& t) {
  const at::ScalarType weights = time_linear1_->weight.scalar_type();
  const at::ScalarType dtype = weights == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor embedding = sinusoidal_embedding(t, dim_, dtype).to(weights);
  return run_layer(time_linear2_, at::gelu(run_layer(time_linear1_, embedding)));
}

void Unet::list_parts() {
  parts_.push_back({"init_conv", {"init_conv.", "time_mlp."}, [this](Flow& flow) {
                      flow.h = run_layer(init_conv_, flow.h);
                      flow.skips.push_back(flow.h);
                      flow.time = embed_time(flow.t);
                    }});
  list_down_parts();
  list_middle_parts();
  list_up_parts();
  parts_.push_back({"final_res_block", {"final_res_block.", "final_conv."}, [this](Flow& flow) {
                      const at::Tensor stem = flow.skips.back();
                      flow.skips.pop_back();
                      flow.h = final_res_block_->forward(at::cat({flow.h, stem}, 1), flow.time);
                      flow.h = run_layer(final_conv_, flow.h);
                    }});
}

void Unet::list_down_parts() {
  for (size_t i = 0; i < downs_.size(); ++i) {
    Stage* const stage = downs_[i].get();
    const std::string name = "downs." + std::to_string(i);
    parts_.push_back({name + ".0", {name + ".0."}, [stage](Flow& flow) {
                        flow.h = stage->block1->forward(flow.h, flow.time);
                        flow.skips.push_back(flow.h);
                      }});
    parts_.push_back({name + ".1", {name + ".1.", name + ".2."}, [stage](Flow& flow) {
                        flow.h = stage->block2->forward(flow.h, flow.time);
                        flow.h = stage->attention->forward(flow.h) + flow.h;
                        flow.skips.push_back(flow.h);
                      }});
    parts_.push_back(
        {name + ".3", {name + ".3."}, [stage](Flow& flow) { flow.h = stage->resample(flow.h); }});
  }
}

void Unet::list_middle_parts() {
  parts_.push_back({"mid_block1", {"mid_block1."}, [this](Flow& flow) {
                      flow.h = mid_block1_->forward(flow.h, flow.time);
                    }});
  parts_.push_back({"mid_attn", {"mid_attn."}, [this](Flow& flow) {
                      flow.h = mid_attn_->forward(flow.h) + flow.h;
                    }});
  parts_.push_back({"mid_block2", {"mid_block2."}, [this](Flow& flow) {
                      flow.h = mid_block2_->forward(flow.h, flow.time);
                    }});
}

void Unet::list_up_parts() {
  for (size_t i = 0; i < ups_.size(); ++i) {
    Stage* const stage = ups_[i].get();
    const std::string name = "ups." + std::to_string(i);
    parts_.push_back({name + ".0", {name + ".0."}, [stage](Flow& flow) {
                        flow.h = stage->block1->forward(join_skip(flow), flow.time);
                      }});
    parts_.push_back({name + ".1", {name + ".1.", name + ".2."}, [stage](Flow& flow) {
                        flow.h = stage->block2->forward(join_skip(flow), flow.time);
                        flow.h = stage->attention->forward(flow.h) + flow.h;
                      }});
    parts_.push_back(
        {name + ".3", {name + ".3."}, [stage](Flow& flow) { flow.h = stage->resample(flow.h); }});
  }
}

}  // namespace noisemark::suite::lucid
