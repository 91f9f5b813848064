#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>

#include <memory>
#include <string>

#include "suite/config/definition.h"
#include "suite/parallel/rank.h"

/// Checks that both U-Nets need. The first two throw Error (exit code 2) naming the key.

namespace noisemark::suite {

void check_positive(const std::string& key, int64_t value);

/// channels, dim (even, at least 4), dim_mults, dropout, and a resolution that can be halved once
/// per stage but the last.
void check_common_shape(const ModelConfig& config);

/// Programming errors: x is not [N, channels, H, W] with H and W multiples of `factor`, or t not
/// [N] int64.
void check_input(const at::Tensor& x, const at::Tensor& t, int64_t channels, int64_t factor);

/// Small parts that both U-Nets share.

/// A child of `parent` without parameters of its own. The peers keep some layers in a Sequential or
/// ModuleList, whose index is part of the parameter's name ("mlp.1.weight"); registering the layer
/// under an index in such a container gives the same name and keeps the layer's type.
[[nodiscard]] std::shared_ptr<torch::nn::Module> add_container(torch::nn::Module& parent,
                                                               const std::string& name);

/// Convolution with bias that keeps the image's size. `kernel` is odd.
[[nodiscard]] torch::nn::Conv2d same_conv(int64_t in_channels, int64_t out_channels,
                                          int64_t kernel);

/// Runs a convolution within its scope; where a band of rows is in force, with the neighbours' rows
/// in the place of its padding (suite/models/rows.h).
[[nodiscard]] at::Tensor run_layer(torch::nn::Conv2d& conv, const at::Tensor& x);

/// x [N, C, H, W] -> [N, C, 2H, 2W], nearest neighbour.
[[nodiscard]] at::Tensor upsample_twice(const at::Tensor& x);

/// While alive, what this thread's forward passes read is that share of a batch. Restores what was
/// set.
class [[nodiscard]] ShareGuard {
 public:
  explicit ShareGuard(const BatchShare& share);
  ~ShareGuard();
  ShareGuard(const ShareGuard&) = delete;
  ShareGuard& operator=(const ShareGuard&) = delete;

 private:
  BatchShare previous_;
};

/// Calls at::dropout. For a share of a batch it draws the masks of the whole batch and keeps its
/// own, so that a sample has the mask that it has on one rank.
[[nodiscard]] at::Tensor dropout(const at::Tensor& x, double p, bool training);

}  // namespace noisemark::suite
