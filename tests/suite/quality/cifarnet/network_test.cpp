#include "suite/quality/cifarnet/network.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "reports/base/sha256.h"
#include "tests/suite/scratch.h"

namespace noisemark::suite::cifarnet {
namespace {

using test::outcome;

at::Tensor pictures(int64_t count, int64_t size = 32) {
  return at::randint(256, {count, 3, size, size}, at::kByte);
}

nlohmann::json trainers_record() {
  return nlohmann::json::parse(
      parse_safetensors(weights_file(), "shipped").metadata.at("cifarnet"));
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST(CifarNet, ships_the_weights_that_its_name_stands_for) {
  EXPECT_EQ(reports::sha256_of(weights_file()), kSha256);
  EXPECT_LE(weights_file().size(), 2'000'000U);
  EXPECT_EQ(trainers_record().at("network"), kName);
  const auto digest = trainers_record().at("training_pictures_sha256").get<std::string>();
  EXPECT_TRUE(reports::is_sha256(digest));
}

/// The trainer's own network computed them, with batch norms that were not folded yet: 1e-4 of
/// features of the size of 1, for float32.
TEST(CifarNet, has_the_features_that_the_trainer_recorded) {
  const at::Tensor picture = (at::arange(3 * 32 * 32) * 37).remainder(251).to(at::kByte);
  const at::Tensor features = Network::shipped(at::kCPU).features(picture.view({1, 3, 32, 32}));
  const auto expected = trainers_record().at("check_features").get<std::vector<double>>();
  ASSERT_EQ(expected.size(), static_cast<size_t>(kFeatures));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(features[0][static_cast<int64_t>(i)].item<double>(), expected[i], 1e-4) << i;
  }
  EXPECT_GT(*std::max_element(expected.begin(), expected.end()), 0.1);
}

TEST(CifarNet, gives_144_features_of_each_picture_by_itself) {
  const Network network = Network::shipped(at::kCPU);
  const at::Tensor three = pictures(3);
  const at::Tensor features = network.features(three);
  EXPECT_EQ(features.sizes(), at::IntArrayRef({3, 144}));
  EXPECT_EQ(features.scalar_type(), at::kFloat);
  // the order of sums in a convolution may depend on the batch: float32, features of the size of 1
  EXPECT_LT(largest_difference(features.narrow(0, 1, 1), network.features(three.narrow(0, 1, 1))),
            1e-5);
  EXPECT_GT(largest_difference(features[0], features[1]), 1e-2);
  EXPECT_EQ(network.features(pictures(2, 16)).sizes(), at::IntArrayRef({2, 144}));
}

TEST(CifarNet, refuses_pictures_that_are_too_small_or_gray) {
  const Network network = Network::shipped(at::kCPU);
  for (const at::Tensor& wrong :
       {pictures(1, 15), at::zeros({1, 1, 32, 32}, at::kByte), at::zeros({1, 3, 32, 32})}) {
    const auto [code, message] = outcome([&] { static_cast<void>(network.features(wrong)); });
    EXPECT_EQ(code, ExitCode::kBadInput);
    EXPECT_NE(message.find("at least 16 x 16 pixels"), std::string::npos) << message;
  }
}

TEST(CifarNet, refuses_other_tensors) {
  NamedTensors tensors = parse_safetensors(weights_file(), "shipped").tensors;
  tensors.back().first = "extra";
  const auto [code, message] = outcome([&] { Network(tensors, at::kCPU, "mine.safetensors"); });
  EXPECT_EQ(code, ExitCode::kBadInput);
  EXPECT_NE(message.find("mine.safetensors: tensors: missing"), std::string::npos) << message;
  EXPECT_NE(message.find("unexpected extra"), std::string::npos) << message;
}

}  // namespace
}  // namespace noisemark::suite::cifarnet
