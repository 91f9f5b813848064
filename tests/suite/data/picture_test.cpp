#include "suite/data/image_file.h"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>

#include "reports/base/sha256.h"
#include "tests/suite/data/image_writer.h"

namespace noisemark::suite {
namespace {

std::string sha256(const Picture& picture) {
  reports::Sha256 hash;
  hash.update(std::as_bytes(std::span(picture.pixels)));
  return hash.hex();
}

struct Case {
  int64_t width;
  int64_t height;
  int64_t channels;
  int64_t resolution;
  const char* sha256;
};

/// SHA-256 of numpy.asarray(CenterCrop(r)(Resize(r)(image))).tobytes() with torchvision 0.26.0 and
/// Pillow 13.0.0, image made from test_picture's formula.
TEST(Resize, gives_the_same_bits_as_torchvision_with_pillow) {
  constexpr std::array kCases{
      Case{48, 37, 3, 16, "5ccece09008ffaf15fe3c5f53c88a1318b0de7f663785b189993f0f83d8cb5e1"},
      Case{20, 31, 3, 32, "3716f5e1430afc3d5c7efc7c3095cc12a0a6cf765214450601dd7d5f19386a40"},
      Case{33, 32, 1, 8, "c849005780b0c9798b310a0ca0e5a001751d5d294226bd7d1863f37fef10b479"},
      Case{101, 64, 3, 64, "7a9f2297e39995ddeda0b84556d3913b8ceba8b4b21f735d8f87c90ac321d8ff"},
      Case{64, 64, 3, 32, "e8e86dc51e3e671fc98d5a9a054dbdf51b7537c393957d9b2df1d95758211037"},
      Case{7, 200, 1, 16, "0997b3b2a274c7050989fc755971303badfd3cb582e2b08c393bc989bcb56729"},
      // Here Pillow 13 resizes the height first.
      Case{24, 100, 3, 16, "8e3a9a1a7b10e84167d7b50abd9f30754219c191e5328afa71c78fc2d92abaef"},
      Case{64, 200, 3, 32, "fb03d949b81e6b5821f2d37f5a93c159311708db070ba0d4cc43a1e495060048"},
  };
  for (const Case& c : kCases) {
    const Picture result =
        resize_and_crop(test::test_picture(c.width, c.height, c.channels), c.resolution);
    EXPECT_EQ(result.width, c.resolution);
    EXPECT_EQ(result.height, c.resolution);
    EXPECT_EQ(sha256(result), c.sha256) << c.width << " x " << c.height;
  }
}

/// SHA-256 of numpy.asarray(image.convert("L")).tobytes() with Pillow 13.0.0.
TEST(Resize, gray_has_the_same_bits_as_pillows) {
  EXPECT_EQ(sha256(to_gray(test::test_picture(16, 16, 3))),
            "4df69aa744b8519bb6deffa8a4c8f77ffb92fd3dbd335aca583af36590e86e16");
}

TEST(Resize, leaves_a_picture_of_the_right_size_alone) {
  const Picture picture = test::test_picture(12, 12, 3);
  EXPECT_EQ(resize_and_crop(picture, 12).pixels, picture.pixels);
}

TEST(Resize, keeps_a_constant_picture_constant) {
  Picture picture{37, 91, 3, {}};
  picture.pixels.assign(37 * 91 * 3, 200);
  const Picture result = resize_and_crop(picture, 16);
  for (const uint8_t value : result.pixels) ASSERT_EQ(value, 200);
}

}  // namespace
}  // namespace noisemark::suite
