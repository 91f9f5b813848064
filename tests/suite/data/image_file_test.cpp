#include "suite/data/image_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
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

/// Of PNG 1.2, annex D.
uint32_t crc_of(std::span<const uint8_t> bytes) {
  uint32_t crc = 0xffffffffU;
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1U) != 0 ? 0xedb88320U ^ (crc >> 1) : crc >> 1;
  }
  return ~crc;
}

void write_big_endian(Bytes& bytes, size_t at, uint32_t value, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    bytes[at + i] = static_cast<uint8_t>(value >> (8 * (count - 1 - i)));
  }
}

/// A whole PNG whose header claims another size.
Bytes png_of_claimed_size(uint32_t width, uint32_t height) {
  constexpr size_t kType = 12;  // of IHDR, whose size and CRC follow
  Bytes bytes = encode_png(test_picture(4, 4, 3));
  write_big_endian(bytes, kType + 4, width, 4);
  write_big_endian(bytes, kType + 8, height, 4);
  write_big_endian(bytes, kType + 17, crc_of(std::span(bytes).subspan(kType, 17)), 4);
  return bytes;
}

Bytes jpeg_of_claimed_size(uint32_t width, uint32_t height) {
  constexpr std::array<uint8_t, 2> kFrame{0xff, 0xc0};
  Bytes bytes = encode_jpeg(test_picture(8, 8, 3), 90);
  const auto frame = std::search(bytes.begin(), bytes.end(), kFrame.begin(), kFrame.end());
  const auto at = static_cast<size_t>(frame - bytes.begin());
  write_big_endian(bytes, at + 5, height, 2);  // after the marker, the length and the precision
  write_big_endian(bytes, at + 7, width, 2);
  return bytes;
}

TEST(ImageFile, a_size_that_no_one_decodes_is_found_by_the_header) {
  EXPECT_EQ(find_damage(png_of_claimed_size(4, 4)), "");
  EXPECT_EQ(find_damage(png_of_claimed_size(100'000, 3'000)), "a picture of 100000 x 3000");
  EXPECT_EQ(find_damage(jpeg_of_claimed_size(8, 8)), "");
  EXPECT_EQ(find_damage(jpeg_of_claimed_size(60'000, 50'000)), "a picture of 60000 x 50000");
}

TEST(ImageFile, a_jpeg_for_printers_is_found_by_the_header) {
  const Bytes cmyk = encode_jpeg(test_picture(8, 8, 4), 90);
  EXPECT_EQ(find_damage(cmyk), "JPEG: CMYK colours, which are neither gray nor RGB");
  EXPECT_THROW(static_cast<void>(decode_image(cmyk)), ImageError);
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
