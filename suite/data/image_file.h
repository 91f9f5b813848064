#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "suite/data/resize.h"

namespace noisemark::suite {

/// A file that is no whole PNG or JPEG; what() says what is wrong and names no file.
class ImageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Pixels of one picture at the most, so that a damaged header does not ask for all memory.
inline constexpr int64_t kMaxPixels = int64_t{1} << 28;

/// Whether `bytes` begin as a PNG or JPEG does.
[[nodiscard]] bool is_image(std::span<const uint8_t> bytes);

/// Cheap test, without decoding, that `bytes` are one whole picture that decode_image() takes. PNG:
/// every chunk's CRC, from header to end. JPEG: the segments up to the scan, and the end marker.
/// Both: what the decoder says of the header, with its size and colours. Empty when all is well,
/// else what is wrong ("truncated", ...).
[[nodiscard]] std::string find_damage(std::span<const uint8_t> bytes);

/// 1 for a picture that is stored in gray, 3 for one in colours, by the header alone. Throws
/// ImageError.
[[nodiscard]] int64_t stored_channels(std::span<const uint8_t> bytes);

/// Decodes to RGB with 8 bits a channel, gray and palette expanded, alpha dropped (as Pillow's
/// convert("RGB") does). Throws ImageError, also for CMYK, and where the decoder only warns of
/// damaged data.
[[nodiscard]] Picture decode_image(std::span<const uint8_t> bytes);

}  // namespace noisemark::suite
