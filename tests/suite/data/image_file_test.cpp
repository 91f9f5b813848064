#include "suite/data/image_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "tests/suite/data/image_writer.h"

namespace noisemark::suite {
namespace {

using test::encode_jpeg;
using test::encode_png;
using test::test_picture;

using Bytes = std::vector<uint8_t>;

Bytes text(std::string_view words) {
  return {words.begin(), words.end()};
}

TEST(ImageFile, png_comes_back_exactly) {
  const Picture picture = test_picture(19, 7, 3);
  const Bytes bytes = encode_png(picture);
  EXPECT_EQ(find_damage(bytes), "");
  const Picture decoded = decode_image(bytes);
  EXPECT_EQ(decoded.width, 19);
  EXPECT_EQ(decoded.height, 7);
  EXPECT_EQ(decoded.pixels, picture.pixels);
}

TEST(ImageFile, gray_png_and_jpeg_become_three_equal_channels) {
  const Picture picture = test_picture(16, 8, 1);
  for (const Bytes& bytes : {encode_png(picture), encode_jpeg(picture, 100)}) {
    const Picture decoded = decode_image(bytes);
    ASSERT_EQ(decoded.pixels.size(), picture.pixels.size() * 3);
    for (size_t i = 0; i < decoded.pixels.size(); i += 3) {
      ASSERT_EQ(decoded.pixels[i], decoded.pixels[i + 1]);
      ASSERT_EQ(decoded.pixels[i], decoded.pixels[i + 2]);
    }
  }
}

/// A smooth gray ramp at quality 100: the discrete cosine transform and its inverse each round
/// once, which moves a value by at most 2.
TEST(ImageFile, jpeg_comes_back_to_within_its_rounding) {
  Picture ramp{32, 24, 1, {}};
  for (int i = 0; i < 32 * 24; ++i) ramp.pixels.push_back(static_cast<uint8_t>(i % 32 * 8));
  const Bytes bytes = encode_jpeg(ramp, 100);
  EXPECT_EQ(find_damage(bytes), "");
  const Picture decoded = decode_image(bytes);
  ASSERT_EQ(decoded.width, 32);
  ASSERT_EQ(decoded.height, 24);
  for (size_t i = 0; i < ramp.pixels.size(); ++i) {
    ASSERT_LE(std::abs(decoded.pixels[3 * i] - ramp.pixels[i]), 2) << i;
  }
}

TEST(ImageFile, every_truncation_of_a_png_is_found_without_decoding) {
  const Bytes whole = encode_png(test_picture(9, 9, 3));
  for (size_t size = 0; size < whole.size(); ++size) {
    const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    ASSERT_NE(find_damage(part), "") << size;
  }
}

TEST(ImageFile, every_flipped_byte_of_a_png_is_found_without_decoding) {
  const Bytes whole = encode_png(test_picture(9, 9, 3));
  for (size_t i = 0; i < whole.size(); ++i) {
    Bytes damaged = whole;
    damaged[i] ^= 0x10;
    ASSERT_NE(find_damage(damaged), "") << i;
  }
}

TEST(ImageFile, every_truncation_of_a_jpeg_is_found_without_decoding) {
  const Bytes whole = encode_jpeg(test_picture(16, 16, 3), 90);
  for (size_t size = 0; size < whole.size(); ++size) {
    const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    ASSERT_NE(find_damage(part), "") << size;
  }
}

TEST(ImageFile, a_jpeg_whose_pixels_are_cut_out_fails_to_decode) {
  Bytes damaged = encode_jpeg(test_picture(64, 64, 3), 90);
  damaged.erase(damaged.end() - 402, damaged.end() - 2);  // the end marker stays
  EXPECT_THROW(static_cast<void>(decode_image(damaged)), ImageError);
}

TEST(ImageFile, other_files_are_called_neither_png_nor_jpeg) {
  EXPECT_EQ(find_damage(text("label,count\n")), "neither PNG nor JPEG");
  EXPECT_EQ(find_damage({}), "empty");
  EXPECT_THROW(static_cast<void>(decode_image(text("hello"))), ImageError);
}

TEST(ImageFile, a_header_that_asks_for_all_memory_is_refused) {
  Bytes bytes = encode_png(test_picture(4, 4, 3));
  for (const size_t at : {16U, 20U}) {  // width and height in IHDR
    bytes[at + 1] = 0x0f;
  }
  EXPECT_THROW(static_cast<void>(decode_image(bytes)), ImageError);
}

}  // namespace
}  // namespace noisemark::suite
