#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

/// PNG and JPEG files, read as Pillow's Image.open(path).convert("RGB") reads them: the same bits
/// for every kind that both take. Gray and palettes become RGB. Alpha, gamma, colour profiles and
/// the orientation of EXIF are not applied, because no training pipeline of the peers applies them.
/// Pillow's way counts also where one would expect another: of 16 bits the upper 8 are kept, but
/// 16-bit gray is cut off at 255, palettes are black beyond their end, and an animation is its
/// first frame, on black or the palette's first colour where it does not fill the image.
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

/// A file that is no whole PNG or JPEG; what() says what is wrong and names no file.
class ImageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Pixels of one image at the most, so that a damaged header does not ask for all memory.
inline constexpr int64_t kMaxPixels = int64_t{1} << 28;

struct DecodedImage {
  Picture picture;       ///< RGB
  int64_t channels = 3;  ///< number in the file: 1 in gray, 3 in colours
  /// Says what is odd about a file whose pixels are all there ("bytes after the end"), or is empty.
  std::string remark;
};

/// Returns whether `bytes` begin as a PNG or JPEG does.
[[nodiscard]] bool is_image(std::span<const uint8_t> bytes);

/// Names the image format that `bytes` begin as where it is one that is not read ("a WebP
/// image"), or returns nothing.
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

/// Returns a black image.
[[nodiscard]] Picture new_picture(int64_t width, int64_t height);

/// Adds `words` to what is odd about a file, once.
void add_remark(std::string& remark, const std::string& words);

}  // namespace detail

}  // namespace noisemark::suite
