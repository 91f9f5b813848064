#include "suite/quality/inception/extractor.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "suite/environment/full_float32.h"

namespace noisemark::suite::inception {
Extractor::Extractor(const Weights& weights, const Settings& settings)
    : settings_(settings), network_(weights, settings.device) {
  if (settings.batch < 1) throw std::invalid_argument("a batch of pictures is at least 1");
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
