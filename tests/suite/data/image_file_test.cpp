#include "suite/data/image_file.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "tests/suite/data/image_writer.h"

namespace noisemark::suite {
namespace {

using test::encode_jpeg;
using test::encode_png;
using test::test_picture;

using Bytes = std::vector<uint8_t>;

/// Returns what is wrong with a file; empty: it is a whole image.
std::string find_damage(const Bytes& bytes) {
  try {
    static_cast<void>(decode_image(bytes));
    return "";
  } catch (const ImageError& error) {
    return error.what();
  }
}

Bytes text(std::string_view words) {
  return {words.begin(), words.end()};
}

TEST(ImageFile, png_comes_back_exactly) {
  const Picture picture = test_picture(19, 7, 3);
  const Bytes bytes = encode_png(picture);
  EXPECT_EQ(find_damage(bytes), "");
  const Picture decoded = decode_image(bytes).picture;
  EXPECT_EQ(decoded.width, 19);
  EXPECT_EQ(decoded.height, 7);
  EXPECT_EQ(decoded.pixels, picture.pixels);
}

TEST(ImageFile, gray_png_and_jpeg_become_three_equal_channels) {
  const Picture picture = test_picture(16, 8, 1);
  for (const Bytes& bytes : {encode_png(picture), encode_jpeg(picture, 100)}) {
    const Picture decoded = decode_image(bytes).picture;
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
  const Picture decoded = decode_image(bytes).picture;
  ASSERT_EQ(decoded.width, 32);
  ASSERT_EQ(decoded.height, 24);
  for (size_t i = 0; i < ramp.pixels.size(); ++i) {
    ASSERT_LE(std::abs(decoded.pixels[3 * i] - ramp.pixels[i]), 2) << i;
  }
}

/// A file that is not as it was written is damaged, or all of its pixels are there and it is odd.
void expect_noticed(const Bytes& bytes, const Picture& picture, size_t where) {
  try {
    const DecodedImage image = decode_image(bytes);
    ASSERT_EQ(image.picture.pixels, picture.pixels) << where;
    ASSERT_NE(image.remark, "") << where;
  } catch (const ImageError&) {
  }
}

TEST(ImageFile, every_truncation_of_a_png_is_found) {
  const Picture picture = test_picture(9, 9, 3);
  const Bytes whole = encode_png(picture);
  constexpr size_t kEndChunk = 12;
  constexpr size_t kChecksums = 8;  // checksums of the stream and of its chunk
  for (size_t size = 0; size < whole.size(); ++size) {
    const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    expect_noticed(part, picture, size);
    if (size + kEndChunk + kChecksums + 2 < whole.size()) {
      ASSERT_NE(find_damage(part), "") << size;
    }
  }
}

TEST(ImageFile, every_flipped_byte_of_a_png_is_found) {
  const Picture picture = test_picture(9, 9, 3);
  const Bytes whole = encode_png(picture);
  for (size_t i = 0; i < whole.size(); ++i) {
    Bytes damaged = whole;
    damaged[i] ^= 0x10;
    expect_noticed(damaged, picture, i);
  }
}

TEST(ImageFile, every_truncation_of_a_jpeg_is_found) {
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

/// The checksum of PNG 1.2, annex D.
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
  constexpr size_t kType = 12;  // offset of IHDR, whose size and CRC follow
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
  write_big_endian(bytes, at + 5, height, 2);  // it follows the marker, the length and the
                                               // precision
  write_big_endian(bytes, at + 7, width, 2);
  return bytes;
}

Bytes chunk(const std::string& type, const Bytes& data) {
  Bytes bytes(4);
  write_big_endian(bytes, 0, static_cast<uint32_t>(data.size()), 4);
  bytes.insert(bytes.end(), type.begin(), type.end());
  bytes.insert(bytes.end(), data.begin(), data.end());
  bytes.resize(bytes.size() + 4);
  write_big_endian(bytes, bytes.size() - 4, crc_of(std::span(bytes).subspan(4, 4 + data.size())),
                   4);
  return bytes;
}

/// A PNG of one row without a filter.
Bytes png_of_row(uint8_t width, uint8_t colour, uint8_t depth, const Bytes& row) {
  Bytes raw{0};
  raw.insert(raw.end(), row.begin(), row.end());
  Bytes stream(compressBound(raw.size()));
  uLongf size = stream.size();
  EXPECT_EQ(compress(stream.data(), &size, raw.data(), raw.size()), Z_OK);
  stream.resize(size);
  Bytes png{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  for (const Bytes& part : {chunk("IHDR", {0, 0, 0, width, 0, 0, 0, 1, depth, colour, 0, 0, 0}),
                            chunk("IDAT", stream), chunk("IEND", {})}) {
    png.insert(png.end(), part.begin(), part.end());
  }
  return png;
}

/// tests/parity/images_test.py has every kind; these are the ones that were once read otherwise.
TEST(ImageFile, sixteen_bits_become_their_upper_eight_and_gray_is_cut_off) {
  const Bytes rgb = png_of_row(2, 2, 16, {1, 255, 2, 0, 3, 128, 37, 106, 0, 200, 255, 0});
  EXPECT_EQ(decode_image(rgb).picture.pixels, (Bytes{1, 2, 3, 37, 0, 255}));
  EXPECT_EQ(decode_image(rgb).remark, "");
  const Bytes gray = png_of_row(3, 0, 16, {0, 37, 0, 255, 1, 0});
  EXPECT_EQ(decode_image(gray).picture.pixels, (Bytes{37, 37, 37, 255, 255, 255, 255, 255, 255}));
  EXPECT_NE(decode_image(gray).remark.find("16-bit gray above 255"), std::string::npos);
  const Bytes with_alpha = png_of_row(1, 4, 16, {9, 200, 0, 0});
  EXPECT_EQ(decode_image(with_alpha).picture.pixels, (Bytes{9, 9, 9}));
}

TEST(ImageFile, chunks_beside_the_pixels_change_none_and_are_no_damage) {
  const Picture picture = test_picture(9, 7, 3);
  const Bytes plain = encode_png(picture);
  constexpr std::ptrdiff_t kBehindHeader = 33;
  for (const Bytes& extra :
       {chunk("gAMA", {0, 1, 0x86, 0xa0}), chunk("gAMA", {0, 0, 0xb1, 0x8f}), chunk("sRGB", {9}),
        chunk("iCCP", text(std::string_view("x\0\0no profile", 13))), chunk("sBIT", Bytes(9, 8)),
        chunk("cHRM", Bytes(32)), chunk("tEXt", text(std::string_view("\0hi", 3))),
        chunk("tRNS", {0, 1, 0, 2, 0, 3}), chunk("prVt", {1}), chunk("ab1_", {1})}) {
    Bytes bytes = plain;
    bytes.insert(bytes.begin() + kBehindHeader, extra.begin(), extra.end());
    EXPECT_EQ(decode_image(bytes).picture.pixels, picture.pixels);
    EXPECT_EQ(decode_image(bytes).remark, "");
  }
}

TEST(ImageFile, colours_beyond_the_palette_are_black_and_said_to_be) {
  const Bytes row = png_of_row(2, 3, 8, {0, 1});
  const Bytes palette = chunk("PLTE", {7, 8, 9});
  Bytes bytes = row;
  bytes.insert(bytes.begin() + 33, palette.begin(), palette.end());
  EXPECT_EQ(decode_image(bytes).picture.pixels, (Bytes{7, 8, 9, 0, 0, 0}));
  EXPECT_NE(decode_image(bytes).remark, "");
  EXPECT_EQ(find_damage(row), "PNG without its palette");
}

TEST(ImageFile, bytes_before_and_behind_the_end_of_a_jpeg_are_no_damage) {
  const Bytes whole = encode_jpeg(test_picture(16, 16, 3), 90);
  Bytes before = whole;
  for (uint8_t byte = 1; byte <= 40; ++byte) before.insert(before.end() - 2, byte);
  Bytes behind = whole;
  behind.resize(behind.size() + 64);
  const DecodedImage expected = decode_image(whole);
  EXPECT_EQ(expected.remark, "");
  EXPECT_EQ(decode_image(before).picture.pixels, expected.picture.pixels);
  EXPECT_NE(decode_image(before).remark.find("extraneous bytes"), std::string::npos);
  EXPECT_EQ(decode_image(behind).picture.pixels, expected.picture.pixels);
}

TEST(ImageFile, a_cut_jpeg_is_damage_even_with_an_end_marker) {
  Bytes cut = encode_jpeg(test_picture(64, 64, 3), 90);
  cut.resize(cut.size() / 2);
  cut.insert(cut.end(), {0xff, 0xd9});
  EXPECT_NE(find_damage(cut), "");
}

TEST(ImageFile, a_size_that_no_one_decodes_is_found_by_the_header) {
  EXPECT_EQ(find_damage(png_of_claimed_size(4, 4)), "");
  EXPECT_EQ(find_damage(png_of_claimed_size(100'000, 3'000)), "an image of 100000 x 3000");
  EXPECT_EQ(find_damage(jpeg_of_claimed_size(8, 8)), "");
  EXPECT_EQ(find_damage(jpeg_of_claimed_size(60'000, 50'000)), "an image of 60000 x 50000");
}

TEST(ImageFile, a_jpeg_for_printers_is_found_by_the_header) {
  const Bytes cmyk = encode_jpeg(test_picture(8, 8, 4), 90);
  EXPECT_EQ(find_damage(cmyk), "JPEG: CMYK colours, which are neither gray nor RGB");
  EXPECT_THROW(static_cast<void>(decode_image(cmyk)), ImageError);
}

TEST(ImageFile, an_animations_first_frame_lies_where_it_says) {
  Bytes header{0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 9, 0, 0};
  const auto framed = [&](Bytes bytes, size_t at) {
    const Bytes frame = chunk("fcTL", header);
    bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), frame.begin(), frame.end());
    return bytes;
  };
  const Bytes whole = png_of_row(3, 0, 8, {7, 8});
  EXPECT_EQ(find_damage(whole), "truncated PNG");
  const DecodedImage image = decode_image(framed(whole, 33));
  EXPECT_EQ(image.picture.pixels, (Bytes{0, 0, 0, 7, 7, 7, 8, 8, 8}));
  EXPECT_NE(image.remark.find("does not fill"), std::string::npos);
  header[3] = 1;
  EXPECT_EQ(find_damage(framed(png_of_row(2, 0, 8, {7, 8}), 33)),
            "PNG animation with frames out of order");
  const Bytes still = png_of_row(3, 0, 8, {6, 7, 8});
  EXPECT_EQ(find_damage(framed(still, still.size() - 12)),
            "PNG animation with frames out of order");
}

TEST(ImageFile, other_files_are_called_neither_png_nor_jpeg) {
  EXPECT_EQ(find_damage(text("GIF89a")), "a GIF image, which is neither PNG nor JPEG");
  EXPECT_EQ(find_damage(text("version https://git-lfs.github.com/spec/v1\n")),
            "a pointer of Git LFS, which is neither PNG nor JPEG");
  EXPECT_EQ(find_damage(text("<html>")), "a page of HTML, which is neither PNG nor JPEG");
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
