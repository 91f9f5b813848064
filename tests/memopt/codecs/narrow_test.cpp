#include "memopt/codecs/narrow.h"

#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/memopt/codecs/bits.h"

namespace noisemark::memopt {
namespace {

using test::float_tensor;
using test::same_bits;

const EncodeKey kKey;

/// `count` elements whose last one is `bits`, the others 1.
at::Tensor ones_and(uint32_t bits, int64_t count) {
  at::Tensor x = at::ones({count});
  x.narrow(0, count - 1, 1).copy_(float_tensor({bits}));
  return x;
}

TEST(Narrow, keeps_every_bfloat16_pattern) {
  std::vector<uint32_t> bits(1 << 16);
  for (uint32_t i = 0; i < bits.size(); ++i) bits[i] = i << 16;
  const at::Tensor x = float_tensor(bits);
  const auto codec = make_narrow_codec();
  const auto encoded = codec->encode(x, kKey);
  ASSERT_TRUE(encoded);
  EXPECT_TRUE(same_bits(codec->decode(*encoded), x));
  EXPECT_EQ(encoded->parts[0].nbytes() * 2, x.nbytes());
}

TEST(Narrow, keeps_every_float16_pattern) {
  std::vector<uint16_t> bits(1 << 16);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  const at::Tensor x = test::half_tensor(bits, at::kHalf).to(at::kFloat);
  const auto codec = make_narrow_codec(at::kHalf);
  const auto encoded = codec->encode(x, kKey);
  ASSERT_TRUE(encoded);
  EXPECT_TRUE(same_bits(codec->decode(*encoded), x));
}

TEST(Narrow, refuses_one_bit_too_many_wherever_it_is) {
  for (const at::ScalarType to : {at::kBFloat16, at::kHalf}) {
    const auto codec = make_narrow_codec(to);
    for (const int64_t count : {64, 65, 1000, 100'000}) {
      EXPECT_TRUE(codec->encode(ones_and(0x3f800000, count), kKey)) << count;
      EXPECT_FALSE(codec->encode(ones_and(0x3f800001, count), kKey)) << count;
    }
  }
}

TEST(Narrow, to_float16_refuses_what_only_float32_holds) {
  const auto codec = make_narrow_codec(at::kHalf);
  EXPECT_TRUE(codec->encode(ones_and(0x33800000, 64), kKey)) << "the smallest subnormal, 2^-24";
  EXPECT_FALSE(codec->encode(ones_and(0x33000000, 64), kKey)) << "half of it";
  EXPECT_TRUE(codec->encode(ones_and(0x477fe000, 64), kKey)) << "the largest, 65504";
  EXPECT_FALSE(codec->encode(ones_and(0x47800000, 64), kKey)) << "the next, 65536";
  EXPECT_TRUE(codec->encode(ones_and(0x7f800000, 64), kKey)) << "infinity";
  EXPECT_FALSE(codec->encode(ones_and(0x7fc00001, 64), kKey)) << "NaN with a long payload";
}

TEST(Narrow, of_what_is_known_to_have_been_narrow_is_the_same) {
  for (const at::ScalarType to : {at::kBFloat16, at::kHalf}) {
    const auto codec = make_narrow_codec(to);
    EncodeKey cast;
    cast.cast_from = to;
    for (const int64_t count : {64, 65, 100'000}) {
      const at::Tensor x = test::normals({count}).to(to).to(at::kFloat);
      const auto encoded = codec->encode(x, cast);
      ASSERT_TRUE(encoded);
      EXPECT_EQ(encoded->verdict, nullptr);
      EXPECT_TRUE(test::same_parts(*encoded, codec->encode(x, kKey).value()));
      EXPECT_TRUE(same_bits(codec->decode(*encoded), x));
    }
    cast.cast_from = at::kDouble;
    EXPECT_FALSE(codec->encode(ones_and(0x3f800001, 64), cast)) << "what was wider is looked at";
  }
}

TEST(Narrow, takes_float32_only) {
  const auto codec = make_narrow_codec();
  for (const auto type : {at::kDouble, at::kBFloat16, at::kHalf, at::kInt}) {
    EXPECT_FALSE(codec->encode(at::ones({256}, type), kKey)) << type;
  }
}

TEST(Narrow, refuses_to_be_made_for_another_type) {
  EXPECT_THROW(make_narrow_codec(at::kFloat), c10::Error);
}

}  // namespace
}  // namespace noisemark::memopt
