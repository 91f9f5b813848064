#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "memopt/codecs/codecs.h"
#include "tests/memopt/codecs/bits.h"

namespace noisemark::memopt {
namespace {

using test::float_tensor;
using test::kAnyKey;
using test::same_bits;

/// `values` ones spread over `count` zeros.
at::Tensor spread(int64_t count, int64_t values, at::ScalarType type = at::kFloat) {
  at::Tensor x = at::zeros({count}, type);
  if (values > 0) x.slice(0, 0, values * (count / values), count / values).fill_(1);
  return x;
}

TEST(Sparse, keeps_relu_outputs_of_every_type_and_odd_length) {
  const auto codec = make_sparse_codec(0.6);
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t count : {2047, 2048, 2049, 2081, 70'001}) {
      const at::Tensor x = at::relu(test::normals({count})).to(type);
      const auto encoded = codec->encode(x, kAnyKey);
      ASSERT_TRUE(encoded) << type << " " << count;
      EXPECT_TRUE(same_bits(codec->decode(*encoded), x)) << type << " " << count;
    }
  }
}

TEST(Sparse, keeps_every_kind_of_value_and_minus_zero) {
  std::vector<uint32_t> bits(4096, 0);
  const std::vector<uint32_t> classes = test::float_classes();
  for (size_t i = 0; i < classes.size(); ++i) bits[i * 70] = classes[i];
  const at::Tensor x = float_tensor(bits);
  const auto codec = make_sparse_codec(0.1);
  const auto encoded = codec->encode(x, kAnyKey);
  ASSERT_TRUE(encoded);
  EXPECT_TRUE(same_bits(codec->decode(*encoded), x));
}

TEST(Sparse, takes_as_many_values_as_there_is_room_for_and_not_one_more) {
  const auto codec = make_sparse_codec(0.25);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor full = spread(40'000, 10'000, type);
    const auto encoded = codec->encode(full, kAnyKey);
    ASSERT_TRUE(encoded);
    EXPECT_TRUE(same_bits(codec->decode(*encoded), full));
    at::Tensor over = full.clone();
    over[39'999] = 1;
    EXPECT_FALSE(codec->encode(over, kAnyKey));
  }
}

TEST(Sparse, keeps_blocks_that_are_full_and_blocks_that_are_empty) {
  const auto codec = make_sparse_codec(0.5);
  at::Tensor x = at::zeros({8 * 1024});
  x.narrow(0, 1024, 1024).fill_(3);
  x.narrow(0, 7 * 1024, 1024).fill_(4);
  const auto encoded = codec->encode(x, kAnyKey);
  ASSERT_TRUE(encoded);
  EXPECT_TRUE(same_bits(codec->decode(*encoded), x));
  const auto empty = codec->encode(at::zeros({8 * 1024}), kAnyKey);
  ASSERT_TRUE(empty);
  EXPECT_TRUE(same_bits(codec->decode(*empty), at::zeros({8 * 1024})));
}

TEST(Sparse, fills_its_room_with_zeros) {
  const at::Tensor x = spread(40'000, 5'000);
  const auto encoded = make_sparse_codec(0.25)->encode(x, kAnyKey);
  ASSERT_TRUE(encoded);
  const at::Tensor& values = encoded->parts[2];
  EXPECT_EQ(values.numel(), 10'000);
  EXPECT_TRUE(same_bits(values.narrow(0, 0, 5'000), at::ones({5'000})));
  EXPECT_TRUE(same_bits(values.narrow(0, 5'000, 5'000), at::zeros({5'000})));
}

TEST(Sparse, takes_the_same_bytes_whatever_the_values) {
  const auto codec = make_sparse_codec(0.5);
  const auto bytes = [&](const at::Tensor& x) {
    const Encoded encoded = codec->encode(x, kAnyKey).value();
    int64_t sum = 0;
    for (const at::Tensor& part : encoded.parts) sum += part.nbytes();
    return sum;
  };
  EXPECT_EQ(bytes(spread(65'536, 10)), bytes(spread(65'536, 32'768)));
  EXPECT_EQ(bytes(spread(65'536, 10)), 65'536 / 8 + 64 * 4 + 32'768 * 4);
}

TEST(Sparse, refuses_a_fraction_that_gains_nothing) {
  EXPECT_FALSE(make_sparse_codec(1.0)->encode(at::zeros({65'536}), kAnyKey));
  EXPECT_FALSE(make_sparse_codec(0.94)->encode(at::zeros({65'536}, at::kBFloat16), kAnyKey));
  EXPECT_TRUE(make_sparse_codec(0.93)->encode(at::zeros({65'536}, at::kBFloat16), kAnyKey));
}

TEST(Sparse, refuses_other_types_and_impossible_fractions) {
  for (const auto type : {at::kDouble, at::kInt, at::kBool}) {
    EXPECT_FALSE(make_sparse_codec(0.5)->encode(at::zeros({65'536}, type), kAnyKey)) << type;
  }
  for (const double fraction : {0.0, -0.5, 1.01, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(make_sparse_codec(fraction), c10::Error) << fraction;
  }
}

}  // namespace
}  // namespace noisemark::memopt
