#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <memory>
#include <vector>

#include "baselines/ops.h"
#include "suite/models/denoiser.h"

/// Blocks of the DDPM U-Net (Ho et al. 2020), named and ordered as in diffusers' `UNet2DModel`.

namespace noisemark::suite::ho {

/// The options that every block of one network shares.
struct BlockOptions {
  int64_t time_channels = 0;  ///< length of the time embedding
  int64_t groups = 32;
  double eps = 1e-6;
  double dropout = 0;
  baselines::Activation activation = baselines::Activation::kSilu;
  const baselines::Ops* ops = nullptr;  ///< outlives the network
};

/// Group norm, activation, 3x3 convolution, twice; the time embedding is added between, dropout is
/// before the second convolution.
class ResnetBlock : public torch::nn::Module {
 public:
  ResnetBlock(int64_t in_channels, int64_t out_channels, const BlockOptions& options);

  /// x [N, in, H, W], time [N, time_channels] -> [N, out, H, W]
  at::Tensor forward(const at::Tensor& x, const at::Tensor& time);

 private:
  BlockOptions options_;
  torch::nn::GroupNorm norm1_{nullptr};
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::Linear time_emb_proj_{nullptr};
  torch::nn::GroupNorm norm2_{nullptr};
  torch::nn::Conv2d conv2_{nullptr};
  torch::nn::Conv2d conv_shortcut_{nullptr};  ///< is empty where the channels stay the same
};

/// One-head softmax attention over all pixels, with its residual sum.
class SelfAttention : public torch::nn::Module {
 public:
  SelfAttention(int64_t channels, const BlockOptions& options);

  /// x [N, C, H, W] -> the same shape
  at::Tensor forward(const at::Tensor& x);

 private:
  at::Tensor normed(const at::Tensor& x);

  BlockOptions options_;
  torch::nn::GroupNorm group_norm_{nullptr};
  torch::nn::Linear to_q_{nullptr};
  torch::nn::Linear to_k_{nullptr};
  torch::nn::Linear to_v_{nullptr};
  torch::nn::Linear out_proj_{nullptr};
};

/// Halves height and width.
class Downsample : public torch::nn::Module {
 public:
  /// `max_pool`: see forward().
  Downsample(int64_t channels, bool max_pool, baselines::Activation activation);

  /// x [N, C, H, W] -> [N, C, H/2, W/2]. By a 3x3 convolution of stride 2 whose zeros stand to the
  /// right and below, as TensorFlow pads; or by a 3x3 convolution, the activation and 2x2 max
  /// pooling, which is ours and exists in no peer.
  at::Tensor forward(const at::Tensor& x);

 private:
  bool max_pool_;
  baselines::Activation activation_;
  torch::nn::Conv2d conv_{nullptr};
};

/// Doubles height and width: nearest neighbour, then 3x3 convolution.
class Upsample : public torch::nn::Module {
 public:
  explicit Upsample(int64_t channels);

  /// x [N, C, H, W] -> [N, C, 2H, 2W]
  at::Tensor forward(const at::Tensor& x);

 private:
  torch::nn::Conv2d conv_{nullptr};
};

/// One resolution of the U-Net, downwards, upwards or in the middle: residual blocks, attention
/// after some of them, a change of resolution. A network's Unet decides how they are joined.
class Stage : public torch::nn::Module {
 public:
  std::vector<std::shared_ptr<ResnetBlock>> resnets;
  std::vector<std::shared_ptr<SelfAttention>> attentions;  ///< is empty without attention
  std::shared_ptr<Downsample> down;
  std::shared_ptr<Upsample> up;
};

/// The network of Ho et al. as diffusers' `UNet2DModel` builds it from the `ddpm-cifar10-32`
/// configuration; `activation` is its `act_fn`, which leaves the time embedding and the last
/// activation SiLU.
class Unet : public Denoiser {
 public:
  static constexpr int64_t kFirstKernel = 3;  ///< rows and columns of the first convolution

  /// Throws Error (exit code 2) on a configuration without meaning.
  Unet(const ModelConfig& config, const baselines::Ops& ops);

 private:
  void add_down_stages(torch::nn::Module& parent, const ModelConfig& config);
  void add_up_stages(torch::nn::Module& parent, const ModelConfig& config);
  void add_mid_stage();
  void list_parts();
  void list_down_parts();
  void list_middle_parts();
  void list_up_parts();
  at::Tensor embed_time(const at::Tensor& t);

  std::vector<int64_t> widths_;  ///< channels of each stage, outermost first
  BlockOptions options_;
  torch::nn::Conv2d conv_in_{nullptr};
  torch::nn::Linear time_linear1_{nullptr};
  torch::nn::Linear time_linear2_{nullptr};
  std::vector<std::shared_ptr<Stage>> downs_;
  std::vector<std::shared_ptr<Stage>> ups_;
  std::shared_ptr<Stage> mid_;
  torch::nn::GroupNorm conv_norm_out_{nullptr};
  torch::nn::Conv2d conv_out_{nullptr};
};

}  // namespace noisemark::suite::ho
