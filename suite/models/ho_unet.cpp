#include "suite/models/ho_unet.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "reports/base/error.h"
#include "suite/models/layers.h"
#include "suite/models/module_scope.h"
#include "suite/models/rows.h"

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
  const ModuleScope scope(*norm);
  if (RowExchange* const rows = rows_in_force()) {
    return activate(normalize_rows(x, norm, *rows), options.activation);
  }
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
  const ModuleScope scope(*this);
  at::Tensor h = run_layer(conv1_, norm_act(x, norm1_, options_));
  const at::Tensor shift = run_layer(time_emb_proj_, activate(time, options_.activation));
  h = h + shift.unsqueeze(-1).unsqueeze(-1);
  h = norm_act(h, norm2_, options_);
  h = run_layer(conv2_, suite::dropout(h, options_.dropout, is_training()));
  return (conv_shortcut_ ? run_layer(conv_shortcut_, x) : x) + h;
}

SelfAttention::SelfAttention(int64_t channels, const BlockOptions& options) : options_(options) {
  group_norm_ = register_module("group_norm", group_norm(channels, options));
  to_q_ = register_module("to_q", torch::nn::Linear(channels, channels));
  to_k_ = register_module("to_k", torch::nn::Linear(channels, channels));
  to_v_ = register_module("to_v", torch::nn::Linear(channels, channels));
  out_proj_ =
      add_container(*this, "to_out")->register_module("0", torch::nn::Linear(channels, channels));
}

at::Tensor SelfAttention::normed(const at::Tensor& x) {
  const ModuleScope scope(*group_norm_);
  if (RowExchange* const rows = rows_in_force()) return normalize_rows(x, group_norm_, *rows);
  return options_.ops->group_norm(x, options_.groups, group_norm_->weight, group_norm_->bias,
                                  options_.eps);
}

at::Tensor SelfAttention::forward(const at::Tensor& x) {
  const ModuleScope scope(*this);
  const at::Tensor tokens = normed(x).flatten(2).transpose(1, 2);  // [N, H * W, C]
  const at::Tensor q = run_layer(to_q_, tokens).unsqueeze(1);
  at::Tensor k = run_layer(to_k_, tokens);
  at::Tensor v = run_layer(to_v_, tokens);
  if (RowExchange* const rows = rows_in_force()) {
    const std::vector<at::Tensor> all = gather_tokens(at::cat({k, v}, 2), 1, *rows).chunk(2, 2);
    k = all[0];
    v = all[1];
  }
  k = k.unsqueeze(1);
  v = v.unsqueeze(1);
  const at::Tensor out = run_layer(out_proj_, at::scaled_dot_product_attention(q, k, v).squeeze(1));
  return out.transpose(1, 2).reshape(x.sizes()) + x;
}

Downsample::Downsample(int64_t channels, bool max_pool, baselines::Activation activation)
    : max_pool_(max_pool), activation_(activation) {
  auto options = torch::nn::Conv2dOptions(channels, channels, 3);
  options = max_pool ? options.padding(1) : options.stride(2);
  conv_ = register_module("conv", torch::nn::Conv2d(options));
}

at::Tensor Downsample::forward(const at::Tensor& x) {
  const ModuleScope scope(*this);
  if (max_pool_) return at::max_pool2d(activate(run_layer(conv_, x), activation_), 2);
  if (RowExchange* const rows = rows_in_force()) {
    const ModuleScope inner(*conv_);
    return convolve_rows(conv_, at::constant_pad_nd(x, {0, 1}), 0, 1, *rows);
  }
  return run_layer(conv_, at::constant_pad_nd(x, {0, 1, 0, 1}));
}

Upsample::Upsample(int64_t channels) {
  conv_ = register_module("conv", same_conv(channels, channels, 3));
}

at::Tensor Upsample::forward(const at::Tensor& x) {
  const ModuleScope scope(*this);
  return run_layer(conv_, upsample_twice(x));
}

namespace {

constexpr double kMaxPeriod = 10000.0;

// diffusers' get_timestep_embedding with freq_shift 1, sines before cosines; always float32, and
// divided after the product, which rounds otherwise than the other U-Net's embedding.
at::Tensor sinusoidal_embedding(const at::Tensor& t, int64_t dim) {
  const int64_t half = dim / 2;
  const at::Tensor index = at::arange(half, t.options().dtype(at::kFloat));
  const at::Tensor frequencies =
      (index * -std::log(kMaxPeriod) / static_cast<double>(half - 1)).exp();
  const at::Tensor angles = t.unsqueeze(1).to(at::kFloat) * frequencies.unsqueeze(0);
  return at::cat({angles.sin(), angles.cos()}, -1);
}

std::vector<int64_t> resolutions(const ModelConfig& config) {
  std::vector<int64_t> result;
  for (size_t i = 0; i < config.dim_mults.size(); ++i) result.push_back(config.resolution >> i);
  return result;
}

bool contains(const std::vector<int64_t>& values, int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

bool has_attention(const ModelConfig& config, size_t stage) {
  return contains(config.attention_resolutions, config.resolution >> stage);
}

void check_one_of(const std::string& key, const std::string& value,
                  const std::vector<std::string>& accepted) {
  if (std::find(accepted.begin(), accepted.end(), value) != accepted.end()) return;
  throw bad_input(key, "", value, fmt::format("one of: {}", fmt::join(accepted, ", ")));
}

const ModelConfig& checked(const ModelConfig& config) {
  check_common_shape(config);
  check_positive("model.res_blocks", config.res_blocks);
  check_positive("model.groups", config.groups);
  check_one_of("model.activation", config.activation, {"silu", "relu"});
  check_one_of("model.downsample", config.downsample, {"conv", "max_pool"});
  for (const int64_t mult : config.dim_mults) {
    if (config.dim * mult % config.groups == 0) continue;
    throw bad_input(
        "model.groups", "", std::to_string(config.groups),
        fmt::format("a divisor of every stage's channels, here {} * {}", config.dim, mult));
  }
  for (const int64_t wanted : config.attention_resolutions) {
    if (contains(resolutions(config), wanted)) continue;
    throw bad_input("model.attention_resolutions", "", std::to_string(wanted),
                    fmt::format("of: {}", fmt::join(resolutions(config), ", ")));
  }
  return config;
}

// Ties a stage's children to the containers that name them. The peer draws a residual block and
// then its attention, but lists all attentions first.
class StageBuilder {
 public:
  StageBuilder(Stage& stage, bool attention, const BlockOptions& options)
      : stage_(stage), options_(options) {
    if (attention) attentions_ = add_container(stage, "attentions");
    resnets_ = add_container(stage, "resnets");
  }

  void add_resnet(int64_t in_channels, int64_t out_channels) {
    stage_.resnets.push_back(resnets_->register_module(
        std::to_string(stage_.resnets.size()),
        std::make_shared<ResnetBlock>(in_channels, out_channels, options_)));
  }

  void add_attention(int64_t channels) {
    if (!attentions_) return;
    stage_.attentions.push_back(
        attentions_->register_module(std::to_string(stage_.attentions.size()),
                                     std::make_shared<SelfAttention>(channels, options_)));
  }

 private:
  Stage& stage_;
  const BlockOptions& options_;
  std::shared_ptr<torch::nn::Module> attentions_;
  std::shared_ptr<torch::nn::Module> resnets_;
};

BlockOptions block_options(const ModelConfig& config, const baselines::Ops& ops) {
  BlockOptions options;
  options.time_channels = 4 * config.dim * config.dim_mults.front();
  options.groups = config.groups;
  options.dropout = config.dropout;
  options.activation =
      config.activation == "relu" ? baselines::Activation::kRelu : baselines::Activation::kSilu;
  options.ops = &ops;
  return options;
}

/// A residual block with the attention after it, where there is one.
Part block_of(const std::string& name, Stage& stage, size_t i, bool takes_skip, bool gives_skip) {
  Part part;
  part.name = fmt::format("{}.resnets.{}", name, i);
  part.prefixes = {part.name + "."};
  ResnetBlock* const resnet = stage.resnets[i].get();
  SelfAttention* attention = nullptr;
  if (i < stage.attentions.size()) {
    attention = stage.attentions[i].get();
    part.prefixes.push_back(fmt::format("{}.attentions.{}.", name, i));
  }
  part.run = [resnet, attention, takes_skip, gives_skip](Flow& flow) {
    if (takes_skip) {
      flow.h = at::cat({flow.h, flow.skips.back()}, 1);
      flow.skips.pop_back();
    }
    flow.h = resnet->forward(flow.h, flow.time);
    if (attention != nullptr) flow.h = attention->forward(flow.h);
    if (gives_skip) flow.skips.push_back(flow.h);
  };
  return part;
}

}  // namespace

Unet::Unet(const ModelConfig& config, const baselines::Ops& ops)
    : Denoiser(config.channels, int64_t{1} << (checked(config).dim_mults.size() - 1)),
      options_(block_options(config, ops)) {
  for (const int64_t mult : config.dim_mults) widths_.push_back(config.dim * mult);
  const int64_t width = widths_.front();

  conv_in_ = register_module("conv_in", same_conv(config.channels, width, kFirstKernel));
  const auto time_embedding = add_container(*this, "time_embedding");
  time_linear1_ = time_embedding->register_module("linear_1", torch::nn::Linear(width, 4 * width));
  time_linear2_ =
      time_embedding->register_module("linear_2", torch::nn::Linear(4 * width, 4 * width));

  // The peer lists down, up, middle, but draws down, middle, up.
  const auto down_blocks = add_container(*this, "down_blocks");
  const auto up_blocks = add_container(*this, "up_blocks");
  add_down_stages(*down_blocks, config);
  add_mid_stage();
  add_up_stages(*up_blocks, config);

  conv_norm_out_ = register_module(
      "conv_norm_out",
      torch::nn::GroupNorm(torch::nn::GroupNormOptions(options_.groups, width).eps(options_.eps)));
  conv_out_ = register_module("conv_out", same_conv(width, config.channels, 3));
  list_parts();
}

void Unet::add_down_stages(torch::nn::Module& parent, const ModelConfig& config) {
  int64_t in_channels = widths_.front();
  for (size_t i = 0; i < widths_.size(); ++i) {
    const auto stage = parent.register_module(std::to_string(i), std::make_shared<Stage>());
    StageBuilder builder(*stage, has_attention(config, i), options_);
    for (int64_t layer = 0; layer < config.res_blocks; ++layer) {
      builder.add_resnet(in_channels, widths_[i]);
      builder.add_attention(widths_[i]);
      in_channels = widths_[i];
    }
    if (i + 1 < widths_.size()) {
      stage->down = add_container(*stage, "downsamplers")
                        ->register_module("0", std::make_shared<Downsample>(
                                                   widths_[i], config.downsample == "max_pool",
                                                   options_.activation));
    }
    downs_.push_back(stage);
  }
}

void Unet::add_mid_stage() {
  mid_ = register_module("mid_block", std::make_shared<Stage>());
  StageBuilder builder(*mid_, true, options_);
  const int64_t width = widths_.back();
  builder.add_resnet(width, width);
  builder.add_attention(width);
  builder.add_resnet(width, width);
}

void Unet::add_up_stages(torch::nn::Module& parent, const ModelConfig& config) {
  int64_t in_channels = widths_.back();
  for (size_t i = 0; i < widths_.size(); ++i) {
    const size_t level = widths_.size() - 1 - i;
    const int64_t outer = widths_[level == 0 ? 0 : level - 1];
    const auto stage = parent.register_module(std::to_string(i), std::make_shared<Stage>());
    StageBuilder builder(*stage, has_attention(config, level), options_);
    for (int64_t layer = 0; layer <= config.res_blocks; ++layer) {
      const int64_t skip = layer == config.res_blocks ? outer : widths_[level];
      builder.add_resnet(in_channels + skip, widths_[level]);
      builder.add_attention(widths_[level]);
      in_channels = widths_[level];
    }
    if (level > 0) {
      stage->up = add_container(*stage, "upsamplers")
                      ->register_module("0", std::make_shared<Upsample>(widths_[level]));
    }
    ups_.push_back(stage);
  }
}

at::Tensor Unet::embed_time(const at::Tensor& t) {
  const at::Tensor embedding =
      sinusoidal_embedding(t, widths_.front()).to(time_linear1_->weight.scalar_type());
  return run_layer(time_linear2_, at::silu(run_layer(time_linear1_, embedding)));
}

void Unet::list_parts() {
  parts_.push_back({"conv_in", {"conv_in.", "time_embedding."}, [this](Flow& flow) {
                      flow.time = embed_time(flow.t);
                      flow.h = run_layer(conv_in_, flow.h);
                      flow.skips.push_back(flow.h);
                    }});
  list_down_parts();
  list_middle_parts();
  list_up_parts();
  parts_.push_back({"conv_out", {"conv_norm_out.", "conv_out."}, [this](Flow& flow) {
                      BlockOptions last = options_;
                      last.activation = baselines::Activation::kSilu;
                      flow.h = run_layer(conv_out_, norm_act(flow.h, conv_norm_out_, last));
                    }});
}

void Unet::list_down_parts() {
  for (size_t s = 0; s < downs_.size(); ++s) {
    Stage& stage = *downs_[s];
    const std::string name = fmt::format("down_blocks.{}", s);
    for (size_t i = 0; i < stage.resnets.size(); ++i) {
      parts_.push_back(block_of(name, stage, i, false, true));
    }
    if (!stage.down) continue;
    parts_.push_back({name + ".downsamplers.0",
                      {name + ".downsamplers."},
                      [down = stage.down.get()](Flow& flow) {
                        flow.h = down->forward(flow.h);
                        flow.skips.push_back(flow.h);
                      }});
  }
}

void Unet::list_middle_parts() {
  for (size_t i = 0; i < mid_->resnets.size(); ++i) {
    parts_.push_back(block_of("mid_block", *mid_, i, false, false));
  }
}

void Unet::list_up_parts() {
  for (size_t s = 0; s < ups_.size(); ++s) {
    Stage& stage = *ups_[s];
    const std::string name = fmt::format("up_blocks.{}", s);
    for (size_t i = 0; i < stage.resnets.size(); ++i) {
      parts_.push_back(block_of(name, stage, i, true, false));
    }
    if (!stage.up) continue;
    parts_.push_back({name + ".upsamplers.0",
                      {name + ".upsamplers."},
                      [up = stage.up.get()](Flow& flow) { flow.h = up->forward(flow.h); }});
  }
}

}  // namespace noisemark::suite::ho
