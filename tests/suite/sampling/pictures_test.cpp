#include "suite/sampling/folder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <vector>

#include "suite/data/image_file.h"

namespace noisemark::suite {
namespace {

TEST(ToPixels, takes_every_stored_value_back_to_itself) {
  std::vector<float> values;
  for (int stored = 0; stored < 256; ++stored) {
    values.push_back(pixel_value(static_cast<uint8_t>(stored)));
  }
  const at::Tensor pixels = to_pixels(at::tensor(values).view({1, 1, 16, 16}));
  EXPECT_TRUE(pixels.flatten().equal(at::arange(256).to(at::kByte)));
}

TEST(ToPixels, rounds_to_the_nearest_and_clamps) {
  const float half = 1.0F / 255;  // half of the distance between two stored values
  const at::Tensor samples =
      at::tensor({-3.0F, -1.0F, -1 + 0.9F * half, -1 + 1.1F * half, 1.0F, 5.0F});
  EXPECT_TRUE(to_pixels(samples.view({1, 1, 1, 6}))
                  .flatten()
                  .equal(at::tensor({0, 0, 0, 1, 255, 255}, at::kByte)));
}

TEST(ToPixels, puts_channels_last) {
  const at::Tensor samples = at::arange(2 * 3 * 4 * 5).view({2, 3, 4, 5}).to(at::kFloat) / 120;
  const at::Tensor pixels = to_pixels(samples);
  EXPECT_EQ(pixels.sizes(), (at::IntArrayRef{2, 4, 5, 3}));
  EXPECT_TRUE(pixels.is_contiguous());
  EXPECT_TRUE(pixels[1].select(2, 2).equal(to_pixels(samples.narrow(1, 2, 1))[1].select(2, 0)));
}

TEST(ContactSheet, shows_the_samples_row_by_row_on_white) {
  at::Tensor pixels = at::full({5, 16, 16, 3}, 0, at::kByte);
  for (int64_t i = 0; i < 5; ++i) pixels[i].fill_(10 * i);
  const at::Tensor sheet = contact_sheet(pixels);
  // Three columns and two rows of tiles of 64 pixels with gaps of 2.
  ASSERT_EQ(sheet.sizes(), (at::IntArrayRef{2 * 66 + 2, 3 * 66 + 2, 3}));
  for (int64_t i = 0; i < 5; ++i) {
    const at::Tensor tile = sheet.narrow(0, 2 + i / 3 * 66, 64).narrow(1, 2 + i % 3 * 66, 64);
    EXPECT_TRUE(tile.eq(10 * i).all().item<bool>()) << i;
  }
  EXPECT_TRUE(sheet.narrow(0, 66, 2).eq(255).all().item<bool>());
  EXPECT_TRUE(sheet.narrow(0, 68, 64).narrow(1, 134, 64).eq(255).all().item<bool>()) << "no sixth";
}

TEST(ContactSheet, shows_64_at_the_most_and_large_ones_as_they_are) {
  const at::Tensor sheet = contact_sheet(at::full({70, 100, 100, 1}, 7, at::kByte));
  EXPECT_EQ(sheet.sizes(), (at::IntArrayRef{8 * 102 + 2, 8 * 102 + 2, 1}));
  EXPECT_EQ(contact_sheet(at::full({1, 4, 4, 1}, 7, at::kByte)).size(0), 68);
}

}  // namespace
}  // namespace noisemark::suite
