#pragma once

#include <cstdint>

namespace noisemark::suite {

/// A stored pixel in [0, 255] as the model sees it, in [-1, 1]: float32 arithmetic in the order of
/// the peer (torchvision's ToTensor divides by 255, GaussianDiffusion computes 2 x - 1), so the
/// same bits.
[[nodiscard]] inline float pixel_value(uint8_t stored) {
  return static_cast<float>(stored) / 255.0F * 2.0F - 1.0F;
}

}  // namespace noisemark::suite
