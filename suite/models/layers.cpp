#include "suite/models/layers.h"

#include <ATen/ops/upsample_nearest2d.h>

#include <optional>
#include <vector>

namespace noisemark::suite {

std::shared_ptr<torch::nn::Module> add_container(torch::nn::Module& parent,
                                                 const std::string& name) {
  return parent.register_module(name, std::make_shared<torch::nn::Module>());
}

torch::nn::Conv2d same_conv(int64_t in_channels, int64_t out_channels, int64_t kernel) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in_channels, out_channels, kernel).padding(kernel / 2));
}

at::Tensor upsample_twice(const at::Tensor& x) {
  const std::vector<double> factors{2.0, 2.0};
  return at::upsample_nearest2d(x, std::nullopt, factors);
}

}  // namespace noisemark::suite
