#include <ATen/TensorOperators.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "suite/data/cifar10.h"
#include "suite/quality/cifarnet/network.h"
#include "suite/quality/distance/frechet.h"
#include "suite/random/counter_rng.h"

/// Whether the distance grows with what is done to real pictures.
namespace noisemark::suite {
namespace {

constexpr int64_t kPictures = 1000;  // of each set; 2 * 144 is the least that may be gated

Definition cifar10() {
  Definition definition;
  definition.data.name = "cifar10";
  definition.model.channels = 3;
  definition.model.resolution = 32;
  return definition;
}

/// Pictures [begin, begin + kPictures) of the test split, float in [-1, 1].
at::Tensor read_pictures(const Dataset& dataset, int64_t begin) {
  at::Tensor pictures = at::empty({kPictures, 3, 32, 32});
  auto* values = pictures.mutable_data_ptr<float>();
  for (int64_t i = 0; i < kPictures; ++i) {
    dataset.read(Split::kTest, begin + i, std::span(values + i * 3072, 3072));
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

at::Tensor features(const cifarnet::Network& network, const at::Tensor& pictures) {
  const at::Tensor bytes = ((pictures + 1) * 127.5).round().clamp(0, 255).to(at::kByte);
  return network.features(bytes);
}

/// Distances to other pictures of the same kind after `change` with each of
/// `levels`; the first level changes nothing.
std::vector<double> distances(const std::function<at::Tensor(const at::Tensor&, double)>& change,
                              const std::vector<double>& levels) {
  const auto dataset = open_cifar10(cifar10(), std::getenv("NOISEMARK_CIFAR10"));
  const cifarnet::Network network = cifarnet::Network::shipped(at::kCPU);
  const at::Tensor reference = features(network, read_pictures(*dataset, 0));
  const at::Tensor others = read_pictures(*dataset, kPictures);
  std::vector<double> found;
  for (const double level : levels) {
    found.push_back(frechet_distance(features(network, change(others, level)), reference).value);
    std::cout << "level " << level << ": " << found.back() << "\n";
  }
  return found;
}

/// Each larger than the one before: a rank correlation of 1.
void expect_to_grow(const std::vector<double>& values) {
  for (size_t i = 1; i < values.size(); ++i) EXPECT_GT(values[i], values[i - 1]) << i;
}

class CifarNetRank : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("NOISEMARK_CIFAR10") == nullptr) GTEST_SKIP() << "NOISEMARK_CIFAR10 is not set";
  }
};

TEST_F(CifarNetRank, grows_with_noise) {
  const at::Tensor z = noise(3);
  expect_to_grow(distances([&](const at::Tensor& x, double level) { return x + z * level; },
                           {0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8}));
}

TEST_F(CifarNetRank, grows_with_blur) {
  const auto blur = [](const at::Tensor& x, double level) {
    const at::Tensor blurred = at::avg_pool2d(x, {3, 3}, {1, 1}, {1, 1}, /*ceil_mode=*/false,
                                              /*count_include_pad=*/false);
    if (level <= 1) return x * (1 - level) + blurred * level;
    const auto size = static_cast<int64_t>(level);
    return at::avg_pool2d(x, {size, size}, {1, 1}, {size / 2, size / 2}, false, false);
  };
  expect_to_grow(distances(blur, {0, 0.25, 0.5, 1, 5, 7, 9}));
}

}  // namespace
}  // namespace noisemark::suite
