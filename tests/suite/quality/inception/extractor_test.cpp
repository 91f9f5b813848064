#include "suite/quality/inception/extractor.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <stdexcept>
#include <string>

#include "suite/quality/inception/weights.h"
#include "tests/suite/quality/inception/random_weights.h"

namespace noisemark::suite::inception::test {
namespace {

at::Tensor pictures(int64_t count, int64_t channels = 3) {
  return at::randint(256, {count, channels, 32, 32}, at::kByte);
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

/// The published form of a layer: convolution, batch norm, ReLU.
at::Tensor unfolded(const std::map<std::string, at::Tensor>& tensors, const Convolution& c,
                    const at::Tensor& x) {
  const auto tensor = [&](const std::string& name) {
    return tensors.at(std::string(c.name) + name).to(at::kDouble);
  };
  const int64_t padding = c.padded ? (c.kernel_height - 1) / 2 : 0;
  const at::Tensor y = at::conv2d(x, tensor(".conv.weight"), {}, c.stride, padding);
  return at::batch_norm(y, tensor(".bn.weight"), tensor(".bn.bias"), tensor(".bn.running_mean"),
                        tensor(".bn.running_var"), /*training=*/false, 0, kNormEps, false)
      .relu();
}

/// In float64 only the order of operations differs: 1e-12 of features of the size of one.
TEST(InceptionNetwork, folds_the_norms_without_changing_what_they_do) {
  const at::Tensor input = network_input(pictures(1), Resize::kTf1Bilinear, at::kDouble);
  const std::map<std::string, at::Tensor> tensors(random_tensors().begin(), random_tensors().end());
  at::Tensor x = input;
  for (size_t i = 0; i < 3; ++i) x = unfolded(tensors, kConvolutions[i], x);
  const at::Tensor expected = at::max_pool2d(x, 3, 2).mean({2, 3});
  const Network network(random_weights(), at::kCPU, at::kDouble);
  constexpr std::array kTap{Tap::k64};
  EXPECT_LT(largest_difference(network.forward(input, kTap)[0], expected), 1e-12);
}

/// The bound that features have to keep to the peers'. They are computed in float32 too.
TEST(InceptionNetwork, is_within_1e_4_of_float64_everywhere) {
  const at::Tensor picture = pictures(1);
  const Network single(random_weights(), at::kCPU);
  const Network full(random_weights(), at::kCPU, at::kDouble);
  const auto features = single.forward(network_input(picture, Resize::kTf1Bilinear), kTaps);
  const auto exact = full.forward(network_input(picture, Resize::kTf1Bilinear, at::kDouble), kTaps);
  for (size_t i = 0; i < kTaps.size(); ++i) {
    ASSERT_EQ(features[i].sizes(), at::IntArrayRef({1, tap_size(kTaps[i])}));
    EXPECT_LT(largest_difference(features[i].to(at::kDouble), exact[i]), 1e-4) << "tap " << i;
    EXPECT_GT(exact[i].std().item<double>(), 0.05) << "tap " << i;
  }
}

TEST(InceptionExtractor, gives_taps_in_the_order_they_are_asked_for) {
  const Extractor extractor(random_weights(), {});
  const at::Tensor one = pictures(1);
  constexpr std::array kAsked{Tap::k2048, Tap::k64};
  const auto features = extractor.features(one, kAsked);
  EXPECT_EQ(features[0].sizes(), at::IntArrayRef({1, 2048}));
  EXPECT_EQ(features[1].sizes(), at::IntArrayRef({1, 64}));
  EXPECT_TRUE(features[0].equal(extractor.features(one)));
}

/// One matrix product, of as many rows either way: the bits of the tap.
TEST(InceptionExtractor, gives_the_logits_of_features_that_it_took) {
  const Extractor extractor(random_weights(), {});
  constexpr std::array kAsked{Tap::k2048, Tap::kLogits};
  const auto taken = extractor.features(pictures(2), kAsked);
  const at::Tensor logits = extractor.logits(taken[0]);
  EXPECT_EQ(logits.sizes(), at::IntArrayRef({2, 1008}));
  EXPECT_TRUE(logits.equal(taken[1]));
}

/// Convolutions may add up in another order for another batch.
TEST(InceptionExtractor, does_not_depend_on_the_batch) {
  const Weights weights = random_weights();
  const at::Tensor three = pictures(3, 1);
  Settings settings;
  settings.batch = 3;
  const at::Tensor together = Extractor(weights, settings).features(three);
  settings.batch = 2;
  const at::Tensor apart = Extractor(weights, settings).features(three);
  EXPECT_LT(largest_difference(together, apart), 1e-4);
  const at::Tensor last = Extractor(weights, settings).features(three.narrow(0, 2, 1));
  EXPECT_LT(largest_difference(together.narrow(0, 2, 1), last), 1e-4);
  EXPECT_GT(largest_difference(together[0], together[2]), 1e-2);
}

TEST(InceptionExtractor, of_no_pictures_gives_no_features) {
  const Extractor extractor(random_weights(), {});
  EXPECT_EQ(extractor.features(pictures(0)).sizes(), at::IntArrayRef({0, 2048}));
}

TEST(InceptionExtractor, refuses_a_batch_of_none) {
  Settings settings;
  settings.batch = 0;
  EXPECT_THROW(Extractor(random_weights(), settings), std::invalid_argument);
}

}  // namespace
}  // namespace noisemark::suite::inception::test
