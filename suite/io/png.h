#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace noisemark::suite {

/// Pixels of an image: rows from top to bottom, in a row the channels of each pixel together.
struct PngPixels {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 0;  ///< 1 (gray) or 3 (RGB)
  std::span<const uint8_t> values;
};

/// The bytes of a PNG file of 8 bits a channel, which any reader takes back to the same pixels.
/// Sizes that do not fit together are a programming error; std::runtime_error when libpng fails.
[[nodiscard]] std::string encode_png(const PngPixels& pixels);

}  // namespace noisemark::suite
