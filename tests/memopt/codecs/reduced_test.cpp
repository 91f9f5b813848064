#include "memopt/codecs/reduced.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/memopt/codecs/bits.h"

namespace noisemark::memopt {
namespace {

using test::float_tensor;
using test::same_bits;

const EncodeKey kKey;

struct Format {
  int bits;
  int mantissa_bits;
  int largest_exponent;
  int smallest_exponent;  ///< of the normal numbers
  int fields;             ///< in a word

  friend std::ostream& operator<<(std::ostream& out, const Format& format) {
    return out << format.bits << " bits";
  }
};

class Reduced : public testing::TestWithParam<Format> {
 protected:
  at::Tensor through(const at::Tensor& x) const {
    const auto codec = make_reduced_codec(GetParam().bits);
    return codec->decode(codec->encode(x, kKey).value());
  }
};

INSTANTIATE_TEST_SUITE_P(Widths, Reduced,
                         testing::Values(Format{16, 10, 15, -14, 2}, Format{10, 4, 15, -14, 3},
                                         Format{8, 3, 7, -6, 4}),
                         [](const auto& tested) {
                           return std::to_string(tested.param.bits) + "_bits";
                         });

TEST_P(Reduced, errs_by_half_a_place_at_most) {
  const at::Tensor x = test::normals({3, 17, 31, 29});
  const at::Tensor y = through(x);
  const auto* from = x.const_data_ptr<float>();
  const auto* to = y.const_data_ptr<float>();
  const double largest = x.abs().max().item<double>();
  // Below the smallest normal number the places are as wide as at it.
  const double smallest = std::ldexp(
      1.0, std::ilogb(largest) - GetParam().largest_exponent + GetParam().smallest_exponent);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double place = std::ldexp(std::max(std::abs(static_cast<double>(from[i])), smallest),
                                    -GetParam().mantissa_bits - 1);
    EXPECT_LE(std::abs(static_cast<double>(from[i]) - to[i]), place) << from[i];
  }
}

TEST_P(Reduced, keeps_what_needs_no_more_places) {
  // 1 + j / 2^mantissa over all exponents of the format, both signs.
  std::vector<float> values;
  const Format format = GetParam();
  for (int e = format.smallest_exponent; e <= format.largest_exponent; ++e) {
    for (int j = 0; j < 1 << format.mantissa_bits; ++j) {
      values.push_back(
          std::ldexp(1.0F + std::ldexp(static_cast<float>(j), -format.mantissa_bits), e));
      values.push_back(-values.back());
    }
  }
  at::Tensor x = at::zeros({static_cast<int64_t>(values.size())});
  std::memcpy(x.mutable_data_ptr(), values.data(), x.nbytes());
  EXPECT_TRUE(same_bits(through(x), x));
  // The scale follows the tensor, so any power of two of it is kept too.
  for (const double scale : {0x1p-100, 0x1p-30, 0x1p40, 0x1p100}) {
    EXPECT_TRUE(same_bits(through(x * scale), x * scale)) << scale;
  }
}

TEST_P(Reduced, keeps_special_values_beside_normal_ones) {
  std::vector<uint32_t> bits(300, 0x3f800000);
  bits[0] = 0x7f800000;
  bits[1] = 0xff800000;
  bits[2] = 0x7fc00000;
  bits[3] = 0x80000000;
  bits[4] = 0;
  bits[299] = 0x7f800001;
  const at::Tensor y = through(float_tensor(bits));
  const auto* to = static_cast<const uint32_t*>(y.const_data_ptr());
  EXPECT_EQ(to[0], 0x7f800000U);
  EXPECT_EQ(to[1], 0xff800000U);
  EXPECT_EQ(to[2], 0x7fc00000U);
  EXPECT_EQ(to[3], 0x80000000U);
  EXPECT_EQ(to[4], 0U);
  EXPECT_TRUE(std::isnan(y[299].item<float>()));
  EXPECT_EQ(to[5], 0x3f800000U);
}

TEST_P(Reduced, never_makes_a_finite_value_infinite) {
  const float largest = std::numeric_limits<float>::max();
  for (const float value : {largest, 0x1.ffffffp-1F, 65535.0F, 0x1.fffffep-60F}) {
    at::Tensor x = at::zeros({300});
    x.fill_(value);
    const at::Tensor y = through(x);
    EXPECT_TRUE(std::isfinite(y[0].item<float>())) << value;
    // The largest code is half a place below the end of the binade or nearer.
    EXPECT_NEAR(y[0].item<double>() / value, 1.0, std::ldexp(1.0, -GetParam().mantissa_bits - 1));
  }
}

TEST_P(Reduced, keeps_zeros_and_tiny_values_in_a_tensor_without_larger_ones) {
  EXPECT_TRUE(same_bits(through(at::zeros({300})), at::zeros({300})));
  std::vector<uint32_t> bits(300, 0x00000001);  // 2^-149, far below any scale
  const at::Tensor y = through(float_tensor(bits));
  EXPECT_LE(std::abs(y[0].item<double>()), 0x1p-148);
}

TEST_P(Reduced, takes_the_bytes_that_its_name_says) {
  const at::Tensor x = test::normals({96 * 128});
  const auto encoded = make_reduced_codec(GetParam().bits)->encode(x, kKey);
  ASSERT_TRUE(encoded);
  EXPECT_EQ(encoded->parts[0].numel() * GetParam().fields, x.numel());
  EXPECT_EQ(encoded->parts[1].numel(), 1);
}

TEST_P(Reduced, takes_half_types_where_that_gains_bytes) {
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor x = test::normals({5001}).to(type);
    const auto codec = make_reduced_codec(GetParam().bits);
    const auto encoded = codec->encode(x, kKey);
    ASSERT_EQ(encoded.has_value(), GetParam().bits < 16);
    if (!encoded) continue;
    // As through float32: both types hold the format's 5 or 4 significant bits.
    EXPECT_TRUE(same_bits(codec->decode(*encoded), through(x.to(at::kFloat)).to(type))) << type;
  }
}

TEST_P(Reduced, refuses_other_types) {
  for (const auto type : {at::kDouble, at::kInt, at::kBool}) {
    const auto codec = make_reduced_codec(GetParam().bits);
    EXPECT_FALSE(codec->encode(at::zeros({4096}, type), kKey)) << type;
  }
}

TEST(ReducedLayout, is_as_the_header_says) {
  // Elements 0, 32, 64, 96 share word 0. The largest magnitude gives the top exponent.
  at::Tensor x = at::zeros({128});
  x[0] = 1.0;
  x[32] = -1.5;
  x[64] = 0.5;
  x[33] = 1.75;
  const auto words = [&](int bits) {
    const Encoded encoded = make_reduced_codec(bits)->encode(x, kKey).value();
    const auto* first = static_cast<const uint32_t*>(encoded.parts[0].const_data_ptr());
    return std::pair(first[0], first[1]);
  };
  EXPECT_EQ(words(8), std::pair(0x68U << 16 | 0xf4U << 8 | 0x70U, 0x76U << 8));
  EXPECT_EQ(words(10), std::pair(0x1d0U << 20 | 0x3e8U << 10 | 0x1e0U, 0x1ecU << 10));
  EXPECT_EQ(words(16), std::pair(0xfa00U << 16 | 0x7800U, 0x7b00U << 16));
}

TEST(ReducedLayout, refuses_another_width) {
  EXPECT_THROW(make_reduced_codec(12), c10::Error);
}

}  // namespace
}  // namespace noisemark::memopt
