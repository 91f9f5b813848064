#pragma once

#include <cstdint>
#include <vector>

#include "suite/data/dataset.h"
#include "suite/data/image_file.h"
#include "tests/suite/scratch.h"

namespace noisemark::suite::test {

/// Deterministic pixels without symmetry: (3 x^2 + 5 y^2 + 7 x y + 91 c) mod 256.
[[nodiscard]] Picture test_picture(int64_t width, int64_t height, int64_t channels);

[[nodiscard]] std::vector<uint8_t> encode_png(const Picture& picture);
/// Gray, RGB or CMYK, by the number of channels.
[[nodiscard]] std::vector<uint8_t> encode_jpeg(const Picture& picture, int quality,
                                               bool progressive = false);

/// An image of a data set.
[[nodiscard]] inline std::vector<float> read(const Dataset& dataset, Split split, int64_t index) {
  std::vector<float> out(
      static_cast<size_t>(dataset.channels() * dataset.resolution() * dataset.resolution()));
  dataset.read(split, index, out);
  return out;
}

}  // namespace noisemark::suite::test
