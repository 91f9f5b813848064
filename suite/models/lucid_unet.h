#pragma once

#include <memory>
#include <vector>

#include "suite/models/denoiser.h"
#include "suite/models/lucid_blocks.h"

namespace noisemark::suite::lucid {

/// How a stage leaves its resolution.
enum class Resample {
  kHalve,   ///< pixel-unshuffle, then 1x1 convolution
  kDouble,  ///< nearest neighbour, then 3x3 convolution
  kKeep,    ///< 3x3 convolution: the innermost stage downwards, the outermost upwards
};

struct StageOptions {
  int64_t in_channels = 0;   ///< of both blocks, with what is concatenated
  int64_t channels = 0;      ///< between the blocks
  int64_t out_channels = 0;  ///< after resampling
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
  /// Throws Error (exit code 2) on a configuration without meaning.
  Unet(const ModelConfig& config, const baselines::Ops& ops);

  at::Tensor forward(const at::Tensor& x, const at::Tensor& t) override;

 private:
  void add_down_stages(torch::nn::Module& downs, const BlockOptions& options);
  void add_up_stages(torch::nn::Module& ups, const BlockOptions& options);
  at::Tensor embed_time(const at::Tensor& t);

  int64_t dim_;
  int64_t channels_;
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
