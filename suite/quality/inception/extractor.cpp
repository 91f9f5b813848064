#include "suite/quality/inception/extractor.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "reports/base/error.h"
#include "suite/quality/inception/weights.h"
#include "suite/train/precision.h"

namespace noisemark::suite::inception {
namespace {

constexpr std::array<int64_t, kTaps.size()> kTapSizes{64, 192, 768, kFeatures, kClasses};

size_t index_of(Tap tap) {
  return static_cast<size_t>(tap);
}

/// TensorFlow's average: the zeros around the map do not count.
at::Tensor average_pool(const at::Tensor& x) {
  return at::avg_pool2d(x, {3, 3}, {1, 1}, {1, 1}, /*ceil_mode=*/false,
                        /*count_include_pad=*/false);
}

at::Tensor halve(const at::Tensor& x) {
  return at::max_pool2d(x, {3, 3}, {2, 2});
}

/// Takes the maximum in FID's last block, where every other Inception network averages.
at::Tensor max_pool(const at::Tensor& x) {
  return at::max_pool2d(x, {3, 3}, {1, 1}, {1, 1});
}

at::Tensor average_over_pixels(const at::Tensor& x) {
  return at::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
}

at::Tensor in_double(const std::map<std::string, at::Tensor>& tensors, const std::string& name) {
  return tensors.at(name).to(at::kDouble);
}

}  // namespace

int64_t tap_size(Tap tap) {
  return kTapSizes.at(index_of(tap));
}

Network::Network(const Weights& weights, at::Device device, at::ScalarType type)
    : format_(device.is_cpu() ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous) {
  const at::NoGradGuard no_gradients;
  const std::map<std::string, at::Tensor> tensors(weights.tensors.begin(), weights.tensors.end());
  for (const Convolution& c : kConvolutions) {
    const std::string name(c.name);
    const at::Tensor variance = in_double(tensors, name + ".bn.running_var");
    const at::Tensor scale = in_double(tensors, name + ".bn.weight") / (variance + kNormEps).sqrt();
    const at::Tensor kernel = in_double(tensors, name + ".conv.weight") * scale.view({-1, 1, 1, 1});
    const at::Tensor bias = in_double(tensors, name + ".bn.bias") -
                            in_double(tensors, name + ".bn.running_mean") * scale;
    Folded folded{kernel.to(device, type).contiguous(format_), bias.to(device, type), {}, {}};
    folded.stride.fill(c.stride);
    if (c.padded) folded.padding = {(c.kernel_height - 1) / 2, (c.kernel_width - 1) / 2};
    convolutions_.emplace(name, std::move(folded));
  }
  fc_weight_ = tensors.at("fc.weight").to(device, type);
}

std::vector<at::Tensor> Network::forward(const at::Tensor& input, std::span<const Tap> taps) const {
  TORCH_CHECK(!taps.empty(), "no features are asked for");
  TORCH_CHECK(input.dim() == 4 && input.size(1) == 3 && input.size(2) == kInputSize &&
                  input.size(3) == kInputSize,
              "the input must be [N, 3, 299, 299], but got ", input.sizes());
  using Stage = at::Tensor (Network::*)(const at::Tensor&) const;
  constexpr std::array<Stage, kTaps.size()> kStages{
      &Network::to_64, &Network::to_192, &Network::to_768, &Network::to_2048, &Network::to_logits};
  const at::NoGradGuard no_gradients;
  const size_t last = index_of(*std::max_element(taps.begin(), taps.end()));
  std::array<at::Tensor, kTaps.size()> reached;
  at::Tensor x = input.contiguous(format_);
  for (size_t stage = 0; stage <= last; ++stage) {
    x = (this->*kStages.at(stage))(x);
    if (std::find(taps.begin(), taps.end(), kTaps.at(stage)) != taps.end()) reached.at(stage) = x;
  }
  std::vector<at::Tensor> features;
  for (const Tap tap : taps) {
    const at::Tensor& found = reached.at(index_of(tap));
    features.push_back(found.dim() == 4 ? average_over_pixels(found) : found);
  }
  return features;
}

at::Tensor Network::convolve(std::string_view name, const at::Tensor& x) const {
  const Folded& folded = convolutions_.find(name)->second;
  at::Tensor y = at::conv2d(x, folded.weight, folded.bias, folded.stride, folded.padding);
  return y.relu_();
}

at::Tensor Network::chain(std::string_view block, Names names, at::Tensor x) const {
  for (const std::string_view name : names) {
    x = convolve(std::string(block).append(".").append(name), x);
  }
  return x;
}

at::Tensor Network::to_64(const at::Tensor& x) const {
  return halve(convolve("Conv2d_2b_3x3", convolve("Conv2d_2a_3x3", convolve("Conv2d_1a_3x3", x))));
}

at::Tensor Network::to_192(const at::Tensor& x) const {
  return halve(convolve("Conv2d_4a_3x3", convolve("Conv2d_3b_1x1", x)));
}

at::Tensor Network::to_768(const at::Tensor& x) const {
  at::Tensor y = x;
  for (const char* block : {"Mixed_5b", "Mixed_5c", "Mixed_5d"}) y = block_a(block, y);
  y = block_b("Mixed_6a", y);
  for (const char* block : {"Mixed_6b", "Mixed_6c", "Mixed_6d", "Mixed_6e"}) y = block_c(block, y);
  return y;
}

at::Tensor Network::to_2048(const at::Tensor& x) const {
  at::Tensor y = block_d("Mixed_7a", x);
  y = block_e("Mixed_7b", y, average_pool(y));
  y = block_e("Mixed_7c", y, max_pool(y));
  return average_over_pixels(y);
}

at::Tensor Network::to_logits(const at::Tensor& x) const {
  return at::mm(x, fc_weight_.t());
}

at::Tensor Network::block_a(std::string_view block, const at::Tensor& x) const {
  return at::cat({chain(block, {"branch1x1"}, x), chain(block, {"branch5x5_1", "branch5x5_2"}, x),
                  chain(block, {"branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3"}, x),
                  chain(block, {"branch_pool"}, average_pool(x))},
                 1);
}

at::Tensor Network::block_b(std::string_view block, const at::Tensor& x) const {
  return at::cat(
      {chain(block, {"branch3x3"}, x),
       chain(block, {"branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3"}, x), halve(x)},
      1);
}

at::Tensor Network::block_c(std::string_view block, const at::Tensor& x) const {
  return at::cat({chain(block, {"branch1x1"}, x),
                  chain(block, {"branch7x7_1", "branch7x7_2", "branch7x7_3"}, x),
                  chain(block,
                        {"branch7x7dbl_1", "branch7x7dbl_2", "branch7x7dbl_3", "branch7x7dbl_4",
                         "branch7x7dbl_5"},
                        x),
                  chain(block, {"branch_pool"}, average_pool(x))},
                 1);
}

at::Tensor Network::block_d(std::string_view block, const at::Tensor& x) const {
  return at::cat(
      {chain(block, {"branch3x3_1", "branch3x3_2"}, x),
       chain(block, {"branch7x7x3_1", "branch7x7x3_2", "branch7x7x3_3", "branch7x7x3_4"}, x),
       halve(x)},
      1);
}

at::Tensor Network::block_e(std::string_view block, const at::Tensor& x,
                            const at::Tensor& pooled) const {
  const at::Tensor single = chain(block, {"branch3x3_1"}, x);
  const at::Tensor twice = chain(block, {"branch3x3dbl_1", "branch3x3dbl_2"}, x);
  return at::cat({chain(block, {"branch1x1"}, x), chain(block, {"branch3x3_2a"}, single),
                  chain(block, {"branch3x3_2b"}, single), chain(block, {"branch3x3dbl_3a"}, twice),
                  chain(block, {"branch3x3dbl_3b"}, twice), chain(block, {"branch_pool"}, pooled)},
                 1);
}

namespace {

/// The names, in the order of Resize.
constexpr std::array<std::string_view, 2> kResizeNames{"tf1-bilinear", "bilinear"};

/// The pixels of one axis between which the output's pixels lie, and how far these are from the
/// lower one.
struct Axis {
  at::Tensor low;   ///< [kInputSize] int64
  at::Tensor high;  ///< [kInputSize] int64, the last pixel at the edge
  at::Tensor part;  ///< [kInputSize], in [0, 1)
};

/// TensorFlow multiplies in float32, whatever type the images have.
Axis tensorflow1_axis(int64_t size, const at::TensorOptions& options) {
  const auto step = static_cast<float>(static_cast<double>(size) / double{kInputSize});
  const at::Tensor position = at::arange(kInputSize, options) * double{step};
  Axis axis;
  axis.low = position.to(at::kLong);
  axis.high = (axis.low + 1).clamp_max(size - 1);
  axis.part = position - axis.low.to(position.scalar_type());
  return axis;
}

/// low + (high - low) * part along `dimension`, in that order of operations.
at::Tensor interpolate(const at::Tensor& x, const Axis& axis, int64_t dimension) {
  std::array<int64_t, 4> shape{1, 1, 1, 1};
  shape[static_cast<size_t>(dimension)] = kInputSize;
  const at::Tensor low = x.index_select(dimension, axis.low);
  return x.index_select(dimension, axis.high).sub_(low).mul_(axis.part.view(shape)).add_(low);
}

/// Each row is interpolated once; which rows are then between which is the second axis.
at::Tensor tf1_input(const at::Tensor& pictures) {
  const Axis across = tensorflow1_axis(pictures.size(3), pictures.options());
  const Axis down = tensorflow1_axis(pictures.size(2), pictures.options());
  const at::Tensor rows = interpolate(pictures, across, 3);
  return interpolate(rows, down, 2).sub_(128).div_(128);
}

at::Tensor bilinear_input(const at::Tensor& pictures) {
  const at::Tensor unit = pictures.div(255);
  return at::upsample_bilinear2d(unit, {kInputSize, kInputSize}, /*align_corners=*/false)
      .mul_(2)
      .sub_(1);
}

}  // namespace

std::string_view resize_name(Resize resize) {
  return kResizeNames.at(static_cast<size_t>(resize));
}

Resize resize_named(const std::string& name) {
  for (const Resize resize : {Resize::kTf1Bilinear, Resize::kBilinear}) {
    if (resize_name(resize) == name) return resize;
  }
  throw bad_input("resize", "", name, "tf1-bilinear or bilinear");
}

at::Tensor network_input(const at::Tensor& pictures, Resize resize, at::ScalarType type) {
  TORCH_CHECK(pictures.dim() == 4 && pictures.scalar_type() == at::kByte,
              "images must be [N, C, H, W] uint8, but got ", pictures.toString(), " ",
              pictures.sizes());
  const int64_t channels = pictures.size(1);
  if (channels != 1 && channels != 3) {
    throw bad_input("Inception network", "channels", std::to_string(channels), "1 or 3");
  }
  // Repeated before they are resized: LibTorch's resize of one channel adds up in another order.
  const at::Tensor colours = pictures.expand({-1, 3, -1, -1});
  const at::Tensor values = colours.contiguous().to(type);
  return resize == Resize::kTf1Bilinear ? tf1_input(values) : bilinear_input(values);
}

Extractor::Extractor(const Weights& weights, const Settings& settings)
    : settings_(settings), network_(weights, settings.device) {
  if (settings.batch < 1) throw std::invalid_argument("a batch of images is at least 1");
}

std::vector<at::Tensor> Extractor::features(const at::Tensor& pictures,
                                            std::span<const Tap> taps) const {
  const at::NoGradGuard no_gradients;
  const FullFloat32Guard full_float32(settings_.device);
  const int64_t count = pictures.size(0);
  std::vector<at::Tensor> all;
  for (const Tap tap : taps) {
    all.push_back(
        at::empty({count, tap_size(tap)}, at::TensorOptions(settings_.device).dtype(at::kFloat)));
  }
  for (int64_t begin = 0; begin < count; begin += settings_.batch) {
    const int64_t length = std::min(settings_.batch, count - begin);
    const at::Tensor batch = pictures.narrow(0, begin, length).to(settings_.device);
    const auto found = network_.forward(network_input(batch, settings_.resize), taps);
    for (size_t i = 0; i < all.size(); ++i) all[i].narrow(0, begin, length).copy_(found[i]);
  }
  return all;
}

at::Tensor Extractor::features(const at::Tensor& pictures) const {
  constexpr std::array kTap{Tap::k2048};
  return features(pictures, kTap).front();
}

at::Tensor Extractor::logits(const at::Tensor& features) const {
  const at::NoGradGuard no_gradients;
  const FullFloat32Guard full_float32(settings_.device);
  return network_.logits(features.to(settings_.device, at::kFloat));
}

}  // namespace noisemark::suite::inception
