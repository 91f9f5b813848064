#pragma once

#include <cstdint>
#include <vector>

namespace noisemark::suite {

/// A stored pixel in [0, 255] as the model sees it, in [-1, 1]: float32 arithmetic in the order of
/// the peer (torchvision's ToTensor divides by 255, GaussianDiffusion computes 2 x - 1), so the
/// same bits.
[[nodiscard]] inline float pixel_value(uint8_t stored) {
  return static_cast<float>(stored) / 255.0F * 2.0F - 1.0F;
}

/// 8-bit pixels, interleaved [height, width, channels].
struct Picture {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 3;  ///< 3: RGB, 1: gray
  std::vector<uint8_t> pixels;
};

/// RGB to gray by ITU-R 601-2 luma with Pillow's integer weights.
[[nodiscard]] Picture to_gray(const Picture& rgb);

/// Resizes the shorter side to `resolution` (the longer in proportion, rounded down) with a
/// triangle filter whose support grows with the reduction (antialiased bilinear), then cuts out the
/// centre: [resolution, resolution, channels]. Fixed-point weights of 22 bits and 8-bit rounding
/// between the horizontal and the vertical pass, of which the one comes first that is first in
/// Pillow 13: bit for bit what its resize gives.
[[nodiscard]] Picture resize_and_crop(const Picture& source, int64_t resolution);

}  // namespace noisemark::suite
