#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>

#include <memory>
#include <string>

/// Small parts that both U-Nets share.
namespace noisemark::suite {

/// A child of `parent` without parameters of its own. The peers keep some layers in a Sequential or
/// ModuleList, whose index is part of the parameter's name ("mlp.1.weight"); registering the layer
/// under an index in such a container gives the same name and keeps the layer's type.
[[nodiscard]] std::shared_ptr<torch::nn::Module> add_container(torch::nn::Module& parent,
                                                               const std::string& name);

/// Convolution with bias that keeps the picture's size. `kernel` is odd.
[[nodiscard]] torch::nn::Conv2d same_conv(int64_t in_channels, int64_t out_channels,
                                          int64_t kernel);

/// x [N, C, H, W] -> [N, C, 2H, 2W], nearest neighbour.
[[nodiscard]] at::Tensor upsample_twice(const at::Tensor& x);

}  // namespace noisemark::suite
