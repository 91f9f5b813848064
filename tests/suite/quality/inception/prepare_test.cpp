#include "suite/quality/inception/extractor.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "reports/base/error.h"
#include "suite/quality/inception/weights.h"

namespace noisemark::suite::inception {
namespace {

/// A row of two pixels, 0 and 100, as an image of any height.
at::Tensor two_pixels() {
  at::Tensor pictures = at::zeros({1, 3, 4, 2}, at::kByte);
  pictures.select(3, 1).fill_(100);
  return pictures;
}

/// The value between 0 and 100 at `position`; pixels beyond the edges are those at the edges.
double between(double position) {
  return 100 * std::clamp(position, 0.0, 1.0);
}

/// Positions are rounded to 2^-24 of 2 pixels, and the differences are of 100: 1e-5 of 128.
TEST(InceptionInput, tensorflow_1_begins_at_the_first_pixels_corner) {
  const at::Tensor input = network_input(two_pixels(), Resize::kTf1Bilinear);
  ASSERT_EQ(input.sizes(), at::IntArrayRef({1, 3, 299, 299}));
  for (int64_t i = 0; i < kInputSize; ++i) {
    const double value = between(static_cast<double>(i) * 2 / 299);
    EXPECT_NEAR(input[0][1][7][i].item<double>(), (value - 128) / 128, 1e-5) << i;
  }
}

TEST(InceptionInput, half_pixel_aligns_the_middles_of_pixels) {
  const at::Tensor input = network_input(two_pixels(), Resize::kBilinear);
  ASSERT_EQ(input.sizes(), at::IntArrayRef({1, 3, 299, 299}));
  for (int64_t i = 0; i < kInputSize; ++i) {
    const double value = between((static_cast<double>(i) + 0.5) * 2 / 299 - 0.5);
    EXPECT_NEAR(input[0][1][7][i].item<double>(), value / 255 * 2 - 1, 1e-5) << i;
  }
}

/// The second axis is the first of the image turned over.
TEST(InceptionInput, treats_rows_as_columns) {
  const at::Tensor pictures = at::randint(256, {1, 3, 5, 9}, at::kByte);
  for (const Resize resize : {Resize::kTf1Bilinear, Resize::kBilinear}) {
    const at::Tensor turned = network_input(pictures.transpose(2, 3).contiguous(), resize);
    const at::Tensor input = network_input(pictures, resize);
    // the order of the two interpolations rounds otherwise: a few times 2^-24 of values to 1
    EXPECT_LT((turned.transpose(2, 3) - input).abs().max().item<double>(), 1e-6);
  }
}

TEST(InceptionInput, of_one_colour_stays_one_colour) {
  for (const int64_t value : {0, 1, 128, 255}) {
    const at::Tensor pictures = at::full({1, 3, 20, 30}, value, at::kByte);
    const auto number = static_cast<double>(value);
    const at::Tensor tf1 = network_input(pictures, Resize::kTf1Bilinear);
    EXPECT_TRUE((tf1 == (number - 128) / 128).all().item<bool>()) << value;
    const at::Tensor half_pixel = network_input(pictures, Resize::kBilinear);
    // 1/255 and weights that do not quite add up to 1
    EXPECT_LT((half_pixel - (number / 255 * 2 - 1)).abs().max().item<double>(), 1e-6) << value;
  }
}

TEST(InceptionInput, of_299_pixels_is_not_resized) {
  const at::Tensor pictures = at::randint(256, {1, 3, 299, 299}, at::kByte);
  const at::Tensor expected = (pictures.to(at::kFloat) - 128) / 128;
  EXPECT_TRUE(network_input(pictures, Resize::kTf1Bilinear).equal(expected));
}

TEST(InceptionInput, repeats_a_gray_picture) {
  const at::Tensor gray = at::randint(256, {2, 1, 8, 8}, at::kByte);
  for (const Resize resize : {Resize::kTf1Bilinear, Resize::kBilinear}) {
    EXPECT_TRUE(
        network_input(gray, resize).equal(network_input(gray.repeat({1, 3, 1, 1}), resize)));
  }
}

TEST(InceptionInput, refuses_other_channels) {
  try {
    static_cast<void>(network_input(at::zeros({1, 2, 8, 8}, at::kByte), Resize::kTf1Bilinear));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_EQ(std::string(error.what()), "Inception network: channels: 2 (1 or 3)");
  }
}

TEST(InceptionInput, resizes_have_names) {
  for (const char* name : {"tf1-bilinear", "bilinear"})
    EXPECT_EQ(resize_name(resize_named(name)), name);
  try {
    static_cast<void>(resize_named("bicubic"));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_EQ(std::string(error.what()), "resize: bicubic (tf1-bilinear or bilinear)");
  }
}

}  // namespace
}  // namespace noisemark::suite::inception
