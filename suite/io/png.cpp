#include "suite/io/png.h"

#include <c10/util/Exception.h>
#include <png.h>

#include <stdexcept>

namespace noisemark::suite {

std::string encode_png(const PngPixels& pixels) {
  TORCH_CHECK((pixels.channels == 1 || pixels.channels == 3) && pixels.width >= 1 &&
                  pixels.height >= 1 &&
                  static_cast<int64_t>(pixels.values.size()) ==
                      pixels.width * pixels.height * pixels.channels,
              "an image of ", pixels.width, " x ", pixels.height, " pixels and ", pixels.channels,
              " channels cannot have ", pixels.values.size(), " values");
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(pixels.width);
  image.height = static_cast<png_uint_32>(pixels.height);
  image.format = pixels.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  // A failure releases what libpng holds.
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.values.data(), 0, nullptr) ==
      0) {
    throw std::runtime_error(std::string("PNG: ") + image.message);
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace noisemark::suite
