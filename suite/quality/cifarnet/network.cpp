#include "suite/quality/cifarnet/network.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstddef>
#include <string_view>

#include "reports/base/error.h"
#include "suite/train/precision.h"

namespace noisemark::suite::cifarnet {
namespace {

/// A 3x3 convolution with its batch norm folded in, then ReLU. The same table is in
/// train_cifarnet.py.
struct Layer {
  int64_t out = 0;
  int64_t stride = 1;
  bool tapped = false;  ///< the layer's maps are features
};

constexpr std::array kLayers{Layer{24, 1}, Layer{48, 2}, Layer{48, 1, true}, Layer{96, 2},
                             Layer{96, 1, true}};

NamedTensors wanted_tensors() {
  NamedTensors tensors;
  int64_t channels = 3;
  for (size_t i = 0; i < kLayers.size(); ++i) {
    const int64_t out = kLayers.at(i).out;
    tensors.emplace_back(fmt::format("{}.weight", i), at::empty({out, channels, 3, 3}));
    tensors.emplace_back(fmt::format("{}.bias", i), at::empty({out}));
    channels = out;
  }
  return tensors;
}

void check_shape(const at::Tensor& pictures) {
  if (pictures.dim() == 4 && pictures.scalar_type() == at::kByte && pictures.size(1) == 3 &&
      pictures.size(2) >= kSmallest && pictures.size(3) >= kSmallest) {
    return;
  }
  throw bad_input(std::string(kName), "images",
                  fmt::format("[{}]", fmt::join(pictures.sizes(), ", ")),
                  fmt::format("[N, 3, H, W] of 8 bits, at least {0} x {0} pixels", kSmallest));
}

}  // namespace

Network::Network(const NamedTensors& weights, at::Device device, const std::string& where) {
  NamedTensors wanted = wanted_tensors();
  copy_by_name(weights, wanted, where);
  for (const auto& [name, tensor] : wanted) tensors_.emplace_back(name, tensor.to(device));
}

Network Network::shipped(at::Device device) {
  const std::string where(kName);
  return {parse_safetensors(weights_file(), where).tensors, device, where};
}

at::Tensor Network::features(const at::Tensor& pictures) const {
  check_shape(pictures);
  const at::NoGradGuard no_gradients;
  const at::Device device = tensors_.front().second.device();
  const FullFloat32Guard full_float32(device);
  at::Tensor x = pictures.to(device).to(at::kFloat) / 127.5 - 1;
  x = x.contiguous(at::MemoryFormat::ChannelsLast);
  std::vector<at::Tensor> features;
  for (size_t i = 0; i < kLayers.size(); ++i) {
    const Layer& layer = kLayers.at(i);
    x = at::conv2d(x, tensors_[2 * i].second, tensors_[2 * i + 1].second, layer.stride, 1).relu_();
    if (layer.tapped) features.push_back(x.mean({2, 3}));
  }
  return at::cat(features, 1);
}

// The file itself, by the assembler: a compiler would need seconds for the same bytes as an array.
asm(".pushsection .rodata\n"
    ".balign 8\n"
    "noisemark_cifarnet_begin:\n"
    ".incbin \"" NOISEMARK_CIFARNET_FILE
    "\"\n"
    "noisemark_cifarnet_end:\n"
    ".popsection\n");

extern "C" {
// NOLINTBEGIN(modernize-avoid-c-arrays): labels of the assembler
extern const char noisemark_cifarnet_begin[] __attribute__((visibility("hidden")));
extern const char noisemark_cifarnet_end[] __attribute__((visibility("hidden")));
// NOLINTEND(modernize-avoid-c-arrays)
}

std::string_view weights_file() {
  return {noisemark_cifarnet_begin,
          static_cast<size_t>(noisemark_cifarnet_end - noisemark_cifarnet_begin)};
}

}  // namespace noisemark::suite::cifarnet
