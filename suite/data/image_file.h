#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "suite/data/picture.h"

/// PNG and JPEG files, read as Pillow's Image.open(path).convert("RGB") reads them: the same bits
/// for every kind that both take. Gray and palettes become RGB. Alpha, gamma, colour profiles and
/// the orientation of EXIF are not applied, because no training pipeline of the peers applies them.
/// Pillow's way counts also where one would expect another: of 16 bits the upper 8 are kept, but
/// 16-bit gray is cut off at 255, palettes are black beyond their end, and an animation is its
/// first frame, on black or the palette's first colour where it does not fill the picture.
namespace noisemark::suite {

/// A file that is no whole PNG or JPEG; what() says what is wrong and names no file.
class ImageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Pixels of one picture at the most, so that a damaged header does not ask for all memory.
inline constexpr int64_t kMaxPixels = int64_t{1} << 28;

struct DecodedImage {
  Picture picture;       ///< RGB
  int64_t channels = 3;  ///< as stored: 1 in gray, 3 in colours
  /// Says what is odd about a file whose pixels are all there ("bytes after the end"), or is empty.
  std::string remark;
};

/// Returns whether `bytes` begin as a PNG or JPEG does.
[[nodiscard]] bool is_image(std::span<const uint8_t> bytes);

/// Names the picture format that `bytes` begin as where it is one that is not read ("a WebP
/// picture"), or returns nothing.
[[nodiscard]] std::string foreign_format(std::span<const uint8_t> bytes);

/// Returns whether `bytes` begin as a ZIP, gzip, bzip2, xz, 7z or RAR archive does.
[[nodiscard]] bool is_archive(std::span<const uint8_t> bytes);

/// Decodes a whole file. Throws ImageError where pixels are missing or made up (also where a
/// decoder would only warn of that), for more than kMaxPixels, and for colours of printers (CMYK).
[[nodiscard]] DecodedImage decode_image(std::span<const uint8_t> bytes);

namespace detail {

// The two decoders behind decode_image(), of files that begin as theirs.
[[nodiscard]] DecodedImage decode_png(std::span<const uint8_t> bytes);
[[nodiscard]] DecodedImage decode_jpeg(std::span<const uint8_t> bytes);

/// Throws ImageError for a size that no one decodes.
void check_size(int64_t width, int64_t height);

/// Returns a black picture.
[[nodiscard]] Picture new_picture(int64_t width, int64_t height);

/// Adds `words` to what is odd about a file, once.
void add_remark(std::string& remark, const std::string& words);

}  // namespace detail

}  // namespace noisemark::suite
