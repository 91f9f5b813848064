#pragma once

#include <memory>
#include <vector>

#include "suite/models/denoiser.h"
#include "suite/models/ho_blocks.h"

namespace noisemark::suite::ho {

/// One resolution of the U-Net, downwards, upwards or in the middle: residual blocks, attention
/// after some of them, a change of resolution. A network's Unet decides how they are joined.
class Stage : public torch::nn::Module {
 public:
  std::vector<std::shared_ptr<ResnetBlock>> resnets;
  std::vector<std::shared_ptr<SelfAttention>> attentions;  ///< empty: no attention
  std::shared_ptr<Downsample> down;
  std::shared_ptr<Upsample> up;
};

/// The network of Ho et al. as diffusers' `UNet2DModel` builds it from the `ddpm-cifar10-32`
/// configuration; `activation` is its `act_fn`, which leaves the time embedding and the last
/// activation SiLU.
class Unet : public Denoiser {
 public:
  /// Throws Error (exit code 2) on a configuration without meaning.
  Unet(const ModelConfig& config, const baselines::Ops& ops);

  at::Tensor forward(const at::Tensor& x, const at::Tensor& t) override;

 private:
  void add_down_stages(torch::nn::Module& parent, const ModelConfig& config);
  void add_up_stages(torch::nn::Module& parent, const ModelConfig& config);
  void add_mid_stage();
  at::Tensor embed_time(const at::Tensor& t);
  at::Tensor run_middle(const at::Tensor& x, const at::Tensor& time);

  int64_t channels_;
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
