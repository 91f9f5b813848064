#include <ATen/TensorOperators.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <memory>
#include <span>
#include <vector>

#include "suite/data/cifar10.h"
#include "suite/quality/cifarnet/network.h"
#include "suite/quality/distance/frechet.h"
#include "suite/random/counter_rng.h"
#include "tests/suite/real_pictures.h"

/// These tests ask whether the distance grows with what is done to real images.
namespace noisemark::suite {
namespace {

constexpr int64_t kPictures = 600;  // number in each set; 2 * 144 is the least that may be gated
constexpr int64_t kValues = 3 * 32 * 32;

Definition cifar10() {
  Definition definition;
  definition.data.name = "cifar10";
  definition.model.channels = 3;
  definition.model.resolution = 32;
  return definition;
}

/// Images [begin, begin + kPictures) of the test split, float in [-1, 1].
at::Tensor read_pictures(const Dataset& dataset, int64_t begin) {
  at::Tensor pictures = at::empty({kPictures, 3, 32, 32});
  auto* values = pictures.mutable_data_ptr<float>();
  for (int64_t i = 0; i < kPictures; ++i) {
    dataset.read(Split::kTest, begin + i, std::span(values + i * kValues, kValues));
  }
  return pictures;
}

at::Tensor noise(uint64_t seed) {
  at::Tensor values = at::empty({kPictures, 3, 32, 32});
  CounterRng(seed, Stream::kEvalNoise, 0, 0)
      .fill_normal(
          std::span(values.mutable_data_ptr<float>(), static_cast<size_t>(values.numel())));
  return values;
}

/// Averages over size x size pixels, fewer at the edges.
at::Tensor blurred(const at::Tensor& x, int64_t size) {
  return at::avg_pool2d(x, {size, size}, {1, 1}, {size / 2, size / 2}, /*ceil_mode=*/false,
                        /*count_include_pad=*/false);
}

class CifarNetRank : public ::testing::Test {
 protected:
  using Change = std::function<at::Tensor(const at::Tensor&, double)>;

  void SetUp() override {
    const char* folder = test::real_pictures();
    if (folder == nullptr && test::pictures_are_required()) FAIL() << test::kPicturesMissing;
    if (folder == nullptr) GTEST_SKIP() << test::kNoPictures;
    const auto dataset = open_cifar10(cifar10(), folder);
    reference_ = features(read_pictures(*dataset, 0));
    others_ = read_pictures(*dataset, kPictures);
  }

  [[nodiscard]] at::Tensor features(const at::Tensor& pictures) const {
    return network_.features(((pictures + 1) * 127.5).round().clamp(0, 255).to(at::kByte));
  }

  /// Other images after `change` with each of `levels`, the first of which changes nothing, lie
  /// ever further from the reference: a rank correlation of 1.
  void expect_to_grow(const Change& change, const std::vector<double>& levels) const {
    double before = -1;
    for (const double level : levels) {
      const double now = frechet_distance(features(change(others_, level)), reference_).value;
      std::cout << level << ": " << now << "\n";
      EXPECT_GT(now, before) << level;
      before = now;
    }
  }

 private:
  cifarnet::Network network_ = cifarnet::Network::shipped(at::kCPU);
  at::Tensor reference_;
  at::Tensor others_;
};

/// The levels are in units of half the range; 0.05 are 6 of 255.
TEST_F(CifarNetRank, grows_with_noise) {
  const at::Tensor z = noise(3);
  expect_to_grow([&](const at::Tensor& x, double level) { return x + z * level; },
                 {0, 0.05, 0.1, 0.2, 0.4, 0.8});
}

/// Part of the way to averages over 3 x 3 pixels, then averages over more.
TEST_F(CifarNetRank, grows_with_blur) {
  const auto change = [](const at::Tensor& x, double level) {
    if (level > 1) return blurred(x, static_cast<int64_t>(level));
    return x * (1 - level) + blurred(x, 3) * level;
  };
  expect_to_grow(change, {0, 0.25, 0.5, 1, 5, 7, 9});
}

/// The share of images that are nothing but noise.
TEST_F(CifarNetRank, grows_with_the_share_of_pictures_that_are_none) {
  const at::Tensor z = noise(4);
  const auto change = [&](const at::Tensor& x, double level) {
    const auto broken = static_cast<int64_t>(level * static_cast<double>(kPictures));
    at::Tensor mixed = x.clone();
    mixed.narrow(0, 0, broken).copy_(z.narrow(0, 0, broken));
    return mixed;
  };
  expect_to_grow(change, {0, 0.05, 0.1, 0.2, 0.4, 0.8});
}

}  // namespace
}  // namespace noisemark::suite
