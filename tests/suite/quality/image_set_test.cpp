#include "suite/quality/image_set.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "suite/data/dataset.h"
#include "suite/data/image_file.h"
#include "tests/suite/data/image_writer.h"
#include "tests/suite/scratch.h"

namespace noisemark::suite::test {
namespace {

std::vector<uint8_t> shade(uint8_t value, int64_t width = 4, int64_t height = 3) {
  return encode_png(Picture{width, height, 3,
                            std::vector<uint8_t>(static_cast<size_t>(3 * width * height), value)});
}

TEST(ImageSet, of_a_folder_holds_every_picture_in_path_order) {
  const TemporaryFolder folder;
  const Picture picture = test_picture(4, 3, 3);
  folder.write("train/b.png", encode_png(picture));
  folder.write("test/a.png", shade(7));
  folder.write("notes.txt", {1, 2, 3});
  const auto set = open_image_set(folder.path());
  ASSERT_EQ(set->size(), 2);
  EXPECT_NE(set->note().find("notes.txt"), std::string::npos);
  const at::Tensor images = set->read(0, 2);
  ASSERT_EQ(images.sizes(), at::IntArrayRef({2, 3, 3, 4}));
  EXPECT_TRUE((images[0] == 7).all().item<bool>());
  for (int64_t i = 0; i < 12; ++i) {
    for (int64_t c = 0; c < 3; ++c) {
      ASSERT_EQ(images[1][c].flatten()[i].item<uint8_t>(),
                picture.pixels[static_cast<size_t>(i * 3 + c)]);
    }
  }
}

TEST(ImageSet, of_a_folder_knows_when_a_picture_changed) {
  const TemporaryFolder folder;
  folder.write("a.png", shade(1));
  folder.write("b.png", shade(2));
  const std::string before = open_image_set(folder.path())->checksum();
  EXPECT_EQ(open_image_set(folder.path())->checksum(), before);
  folder.write("b.png", shade(3));
  EXPECT_NE(open_image_set(folder.path())->checksum(), before);
}

TEST(ImageSet, names_what_is_wrong_with_a_folder) {
  const TemporaryFolder folder;
  const auto refusal = [&] {
    const auto [code, message] = outcome([&] {
      const auto set = open_image_set(folder.path());
      (void)set->read(0, set->size());
    });
    EXPECT_EQ(code, ExitCode::kBadInput);
    return message;
  };
  EXPECT_NE(refusal().find("no images"), std::string::npos);
  folder.write("a.png", shade(1));
  folder.write("b.png", shade(1, 5, 3));
  EXPECT_NE(refusal().find("b.png: 5 x 3 pixels (4 x 3, as a.png)"), std::string::npos)
      << refusal();
  auto cut = shade(1);
  cut.resize(cut.size() / 2);
  folder.write("b.png", cut);
  EXPECT_NE(refusal().find("b.png: "), std::string::npos) << refusal();
  EXPECT_NE(refusal().find("1 file is good, 1 not"), std::string::npos) << refusal();
  const auto [code, message] = outcome([&] { (void)open_image_set(folder.path() / "none"); });
  EXPECT_EQ(code, ExitCode::kBadInput);
  EXPECT_NE(message.find("no such folder"), std::string::npos);
  folder.write("sampling.json", {'{', '}'});
  EXPECT_EQ(refusal(), folder.path().string() + ": the folder of samples, with a sheet of them (" +
                           (folder.path() / "samples.npy").string() + " or " +
                           (folder.path() / "pictures").string() + ")");
}

TEST(ImageSet, of_an_array_takes_either_order_of_axes_and_gray) {
  const at::Tensor planes = at::arange(2 * 3 * 5 * 4).to(at::kByte).view({2, 3, 5, 4});
  const auto set = open_image_array(planes, "a.npy");
  EXPECT_EQ(set->size(), 2);
  EXPECT_TRUE(set->read(0, 2).equal(planes));
  const auto interleaved = open_image_array(planes.permute({0, 2, 3, 1}), "a.npy");
  EXPECT_TRUE(interleaved->read(1, 2).equal(planes.slice(0, 1, 2)));
  EXPECT_EQ(interleaved->checksum(), set->checksum());
  const at::Tensor gray = open_image_array(planes.slice(1, 0, 1), "a.npy")->read(0, 1);
  ASSERT_EQ(gray.sizes(), at::IntArrayRef({1, 3, 5, 4}));
  EXPECT_TRUE(gray[0][2].equal(planes[0][0]));
}

TEST(ImageSet, is_gray_where_every_picture_is) {
  const TemporaryFolder folder;
  folder.write("a.png", encode_png(test_picture(4, 3, 1)));
  folder.write("b.jpg", encode_jpeg(test_picture(4, 3, 1), 90));
  EXPECT_EQ(open_image_set(folder.path())->channels(), 1);
  folder.write("c.jpg", encode_jpeg(test_picture(4, 3, 3), 90));
  EXPECT_EQ(open_image_set(folder.path())->channels(), 3);
  EXPECT_EQ(open_image_array(at::zeros({2, 1, 5, 4}, at::kByte), "a.npy")->channels(), 1);
  EXPECT_EQ(open_image_array(at::zeros({2, 5, 4, 3}, at::kByte), "a.npy")->channels(), 3);
}

TEST(ImageSet, refuses_other_arrays) {
  for (const at::Tensor& bad : {at::zeros({2, 4, 5, 4}, at::kByte), at::zeros({2, 3, 5, 4}),
                                at::zeros({3, 5}, at::kByte), at::zeros({0, 3, 5, 4}, at::kByte)}) {
    const auto [code, message] = outcome([&] { (void)open_image_array(bad, "a.npy"); });
    EXPECT_EQ(code, ExitCode::kBadInput);
    EXPECT_NE(message.find("uint8 [N, 3, H, W]"), std::string::npos) << message;
  }
}

/// Every level of 8 bits, as the model sees it.
class Levels final : public Dataset {
 public:
  [[nodiscard]] int64_t size(Split) const override { return 2; }
  void read(Split split, int64_t index, std::span<float> out) const override {
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] =
          index == 0 ? pixel_value(static_cast<uint8_t>(i)) : (split == Split::kTrain ? -3 : 3);
    }
  }
  [[nodiscard]] int64_t channels() const override { return 1; }
  [[nodiscard]] int64_t resolution() const override { return 16; }
  [[nodiscard]] std::vector<reports::DataFile> files() const override { return {}; }
  [[nodiscard]] std::string standing() const override { return "generated"; }
};

TEST(ImageSet, of_a_dataset_gives_every_level_back_exactly) {
  const auto set = open_dataset_images(std::make_shared<Levels>(), Split::kTrain, "id");
  const at::Tensor images = set->read(0, 2);
  ASSERT_EQ(images.sizes(), at::IntArrayRef({2, 3, 16, 16}));
  for (int64_t c = 0; c < 3; ++c) {
    EXPECT_TRUE(images[0][c].flatten().equal(at::arange(256).to(at::kByte)));
  }
  EXPECT_TRUE((images[1] == 0).all().item<bool>());
  const auto test = open_dataset_images(std::make_shared<Levels>(), Split::kTest, "id");
  EXPECT_TRUE((test->read(1, 2) == 255).all().item<bool>());
  EXPECT_NE(test->checksum(), set->checksum());
}

}  // namespace
}  // namespace noisemark::suite::test
