#include "suite/io/png.h"

#include <gtest/gtest.h>
#include <png.h>

#include <cstdint>
#include <vector>

namespace noisemark::suite {
namespace {

std::vector<uint8_t> every_value(int64_t count) {
  std::vector<uint8_t> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<uint8_t>(7 * i));
  return values;
}

/// Returns what libpng reads back, in the format in which the file was written.
std::vector<uint8_t> decoded(const std::string& bytes, png_uint_32 format) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()), 0);
  EXPECT_EQ(image.format, format);
  image.format = format;
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(image));
  EXPECT_NE(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr), 0);
  return pixels;
}

TEST(Png, comes_back_exactly) {
  const std::vector<uint8_t> gray = every_value(19 * 33);
  EXPECT_EQ(decoded(encode_png({19, 33, 1, gray}), PNG_FORMAT_GRAY), gray);
  const std::vector<uint8_t> colour = every_value(5 * 4 * 3);
  EXPECT_EQ(decoded(encode_png({5, 4, 3, colour}), PNG_FORMAT_RGB), colour);
  EXPECT_EQ(decoded(encode_png({1, 1, 1, every_value(1)}), PNG_FORMAT_GRAY), every_value(1));
}

TEST(Png, of_the_same_pixels_has_the_same_bytes) {
  const std::vector<uint8_t> pixels = every_value(16 * 16 * 3);
  EXPECT_EQ(encode_png({16, 16, 3, pixels}), encode_png({16, 16, 3, pixels}));
}

TEST(Png, of_a_size_that_does_not_fit_is_a_programming_error) {
  const std::vector<uint8_t> pixels = every_value(12);
  EXPECT_ANY_THROW((void)encode_png({2, 2, 2, pixels}));
  EXPECT_ANY_THROW((void)encode_png({2, 2, 1, pixels}));
}

}  // namespace
}  // namespace noisemark::suite
