#include "memopt/codecs/mask.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/threshold_backward.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/memopt/codecs/bits.h"

namespace noisemark::memopt {
namespace {

using test::float_classes;
using test::float_tensor;
using test::half_tensor;
using test::same_bits;

const EncodeKey kKey;

void expect_kept(const Codec& codec, const at::Tensor& x) {
  const auto encoded = codec.encode(x, kKey);
  ASSERT_TRUE(encoded);
  EXPECT_TRUE(same_bits(codec.decode(*encoded), x));
}

TEST(Mask, keeps_the_noise_of_dropout_in_a_bit) {
  const auto codec = make_mask_codec();
  const at::Tensor keep = at::ones({16, 33, 16, 16}).mul_(0.9);
  const at::Tensor noise = at::bernoulli(keep, at::detail::createCPUGenerator(3)).div_(0.9);
  const auto encoded = codec->encode(noise, kKey);
  ASSERT_TRUE(encoded);
  EXPECT_TRUE(same_bits(codec->decode(*encoded), noise));
  EXPECT_EQ(encoded->parts[0].nbytes(), noise.numel() / 8);
}

TEST(Mask, keeps_bool_at_every_length_around_a_block) {
  const auto codec = make_mask_codec();
  for (const int64_t count : {1023, 1024, 1025, 5000, 40'961}) {
    expect_kept(*codec, test::normals({count}).gt(0));
  }
}

TEST(Mask, finds_any_second_value_in_every_floating_type) {
  const auto codec = make_mask_codec();
  for (const uint32_t bits : float_classes()) {
    std::vector<uint32_t> floats(3000, 0);
    std::vector<uint16_t> halves(3000, 0);
    for (size_t i = 0; i < floats.size(); i += 3) {
      floats[i] = bits;
      halves[i] = static_cast<uint16_t>(bits >> 16);
    }
    expect_kept(*codec, float_tensor(floats));
    expect_kept(*codec, half_tensor(halves, at::kBFloat16));
    expect_kept(*codec, half_tensor(halves, at::kHalf));
  }
}

TEST(Mask, keeps_a_tensor_of_one_value) {
  const auto codec = make_mask_codec();
  expect_kept(*codec, at::zeros({2000}));
  expect_kept(*codec, at::ones({2000}));
}

TEST(Mask, refuses_a_third_value_wherever_it_is) {
  const auto codec = make_mask_codec();
  for (const int64_t at : {0, 1, 1023, 1024, 69'999}) {
    for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      at::Tensor x = at::ones({70'000}, type);
      x.narrow(0, 5, 1).zero_();
      ASSERT_TRUE(codec->encode(x, kKey));
      x.narrow(0, at, 1).fill_(2);
      EXPECT_FALSE(codec->encode(x, kKey)) << at << " " << type;
    }
  }
}

TEST(Mask, counts_minus_zero_as_a_value) {
  std::vector<uint32_t> bits(2000, 0);
  bits[7] = 0x80000000;
  expect_kept(*make_mask_codec(), float_tensor(bits));
  bits[8] = 0x3f800000;
  EXPECT_FALSE(make_mask_codec()->encode(float_tensor(bits), kKey));
}

TEST(Mask, refuses_other_types) {
  for (const auto type : {at::kDouble, at::kByte, at::kInt, at::kLong}) {
    EXPECT_FALSE(make_mask_codec()->encode(at::zeros({4096}, type), kKey)) << type;
  }
}

TEST(Sign, decodes_to_one_and_zero) {
  const auto codec = make_sign_codec();
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor x = at::relu(test::normals({4099})).to(type);
    const auto encoded = codec->encode(x, kKey);
    ASSERT_TRUE(encoded);
    EXPECT_TRUE(same_bits(codec->decode(*encoded), x.gt(0).to(type)));
  }
}

/// Whether ReLU's backward gives the same bits from x as from what the codec makes of it.
void expect_same_gradient(const at::Tensor& x) {
  const auto codec = make_sign_codec();
  const auto encoded = codec->encode(x, kKey);
  ASSERT_TRUE(encoded);
  const at::Tensor dy = test::normals(x.sizes(), 2).to(x.scalar_type());
  EXPECT_TRUE(same_bits(at::threshold_backward(dy, codec->decode(*encoded), 0),
                        at::threshold_backward(dy, x, 0)));
}

TEST(Sign, gives_relus_backward_what_it_looks_at) {
  EXPECT_TRUE(make_sign_codec()->keeps_sign());
  EXPECT_FALSE(make_sign_codec()->lossless());
  std::vector<uint32_t> floats;
  std::vector<uint16_t> halves;
  for (int repeat = 0; repeat < 40; ++repeat) {
    for (const uint32_t bits : float_classes()) floats.push_back(bits);
  }
  for (uint32_t i = 0; i < 1 << 16; ++i) halves.push_back(static_cast<uint16_t>(i));
  expect_same_gradient(float_tensor(floats));
  expect_same_gradient(half_tensor(halves, at::kBFloat16));
  expect_same_gradient(half_tensor(halves, at::kHalf));
}

}  // namespace
}  // namespace noisemark::memopt
