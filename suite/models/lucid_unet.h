#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <memory>
#include <vector>

#include "baselines/ops.h"
#include "suite/models/denoiser.h"

/// Blocks of the `Unet` in lucidrains/denoising-diffusion-pytorch 2.3.4. Each registers its
/// children in the peer's order, which is also the order in which the peer draws their initial
/// weights.

namespace noisemark::suite::lucid {

/// The options that every block of one network shares.
struct BlockOptions {
  int64_t time_channels = 0;  ///< length of the time embedding
  double dropout = 0;
  int64_t heads = 4;
  int64_t head_channels = 32;
  const baselines::Ops* ops = nullptr;  ///< outlives the network
};

/// Gain of an RMS norm over channels; the norm itself is Ops::rms_norm.
class RmsNorm : public torch::nn::Module {
 public:
  explicit RmsNorm(int64_t channels);

  at::Tensor g;  ///< [1, C, 1, 1]
};

/// 3x3 convolution, RMS norm, optional scale and shift, SiLU, dropout.
class Block : public torch::nn::Module {
 public:
  Block(int64_t in_channels, int64_t out_channels, double dropout, const baselines::Ops& ops);

  /// x [N, in, H, W] -> [N, out, H, W]. scale, shift [N, out, 1, 1], or both undefined.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& shift);

 private:
  double dropout_;
  const baselines::Ops& ops_;
  torch::nn::Conv2d proj_{nullptr};
  std::shared_ptr<RmsNorm> norm_;
};

/// Two blocks and a shortcut. The time embedding scales and shifts the first block, and only the
/// first block has dropout.
class ResnetBlock : public torch::nn::Module {
 public:
  ResnetBlock(int64_t in_channels, int64_t out_channels, const BlockOptions& options);

  /// x [N, in, H, W], time [N, time_channels] -> [N, out, H, W]
  at::Tensor forward(const at::Tensor& x, const at::Tensor& time);

 private:
  torch::nn::Linear time_proj_{nullptr};
  std::shared_ptr<Block> block1_;
  std::shared_ptr<Block> block2_;
  torch::nn::Conv2d res_conv_{nullptr};  ///< is empty where the channels stay the same
};

/// The part between the second block of a stage and its resampling. The residual sum is outside.
class AttentionLayer : public torch::nn::Module {
 public:
  /// x [N, C, H, W] -> the same shape
  virtual at::Tensor forward(const at::Tensor& x) = 0;
};

/// Attention whose cost is linear in H*W (Shen et al. 2021), with four learned keys and values.
class LinearAttention : public AttentionLayer {
 public:
  LinearAttention(int64_t channels, const BlockOptions& options);
  at::Tensor forward(const at::Tensor& x) override;

 private:
  const baselines::Ops& ops_;
  at::Tensor mem_kv_;  ///< [2, heads, head_channels, 4]
  std::shared_ptr<RmsNorm> norm_;
  torch::nn::Conv2d to_qkv_{nullptr};
  torch::nn::Conv2d out_proj_{nullptr};
  std::shared_ptr<RmsNorm> out_norm_;
};

/// Softmax attention over all pixels, with four learned keys and values. Written out as the peer's
/// default does (no fused attention kernel).
class Attention : public AttentionLayer {
 public:
  Attention(int64_t channels, const BlockOptions& options);
  at::Tensor forward(const at::Tensor& x) override;

 private:
  const baselines::Ops& ops_;
  at::Tensor mem_kv_;  ///< [2, heads, 4, head_channels]
  std::shared_ptr<RmsNorm> norm_;
  torch::nn::Conv2d to_qkv_{nullptr};
  torch::nn::Conv2d to_out_{nullptr};
};

/// The way in which a stage leaves its resolution.
enum class Resample {
  kHalve,   ///< pixel-unshuffle, then 1x1 convolution
  kDouble,  ///< nearest neighbour, then 3x3 convolution
  kKeep,    ///< 3x3 convolution: the innermost stage downwards, the outermost upwards
};

struct StageOptions {
  int64_t in_channels = 0;   ///< input channels of both blocks, with the concatenated skips
  int64_t channels = 0;      ///< number between the blocks
  int64_t out_channels = 0;  ///< number after resampling
  bool full_attention = false;
  Resample resample = Resample::kKeep;
};

/// Two residual blocks, attention, resampling: children "0" to "3".
class Stage : public torch::nn::Module {
 public:
  Stage(const StageOptions& stage, const BlockOptions& options);

  std::shared_ptr<ResnetBlock> block1;
  std::shared_ptr<ResnetBlock> block2;
  std::shared_ptr<AttentionLayer> attention;
  /// x [N, channels, H, W] -> [N, out_channels, H', W']
  at::Tensor resample(const at::Tensor& x);

 private:
  Resample resample_;
  torch::nn::Conv2d conv_{nullptr};
};

/// lucidrains' `Unet(dim, dim_mults, channels, dropout, attn_heads, attn_dim_head)`; everything
/// else at the peer's defaults. Full attention in the innermost stage, linear attention elsewhere.
class Unet : public Denoiser {
 public:
  static constexpr int64_t kFirstKernel = 7;  ///< rows and columns of the first convolution

  /// Throws Error (exit code 2) on a configuration without meaning.
  Unet(const ModelConfig& config, const baselines::Ops& ops);

 private:
  void add_down_stages(torch::nn::Module& downs, const BlockOptions& options);
  void add_up_stages(torch::nn::Module& ups, const BlockOptions& options);
  void list_parts();
  void list_down_parts();
  void list_middle_parts();
  void list_up_parts();
  at::Tensor embed_time(const at::Tensor& t);

  int64_t dim_;
  std::vector<int64_t> widths_;  ///< channels at the input of each stage, and after the last
  torch::nn::Conv2d init_conv_{nullptr};
  torch::nn::Linear time_linear1_{nullptr};
  torch::nn::Linear time_linear2_{nullptr};
  std::vector<std::shared_ptr<Stage>> downs_;
  std::vector<std::shared_ptr<Stage>> ups_;
  std::shared_ptr<ResnetBlock> mid_block1_;
  std::shared_ptr<Attention> mid_attn_;
  std::shared_ptr<ResnetBlock> mid_block2_;
  std::shared_ptr<ResnetBlock> final_res_block_;
  torch::nn::Conv2d final_conv_{nullptr};
};

}  // namespace noisemark::suite::lucid
