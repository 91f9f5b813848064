#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/full.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/threshold_backward.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <ostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "memopt/codecs/arithmetic/jobs.h"
#include "memopt/codecs/codecs.h"
#include "tests/memopt/codecs/bits.h"

namespace noisemark::memopt {
namespace {

using test::float_tensor;
using test::kAnyKey;
using test::same_bits;

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
  const auto encoded = codec->encode(x, kAnyKey);
  ASSERT_TRUE(encoded);
  EXPECT_TRUE(same_bits(codec->decode(*encoded), x));
  EXPECT_EQ(encoded->parts[0].nbytes() * 2, x.nbytes());
}

TEST(Narrow, keeps_every_float16_pattern) {
  std::vector<uint16_t> bits(1 << 16);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  const at::Tensor x = test::half_tensor(bits, at::kHalf).to(at::kFloat);
  const auto codec = make_narrow_codec(at::kHalf);
  const auto encoded = codec->encode(x, kAnyKey);
  ASSERT_TRUE(encoded);
  EXPECT_TRUE(same_bits(codec->decode(*encoded), x));
}

TEST(Narrow, refuses_one_bit_too_many_wherever_it_is) {
  for (const at::ScalarType to : {at::kBFloat16, at::kHalf}) {
    const auto codec = make_narrow_codec(to);
    for (const int64_t count : {64, 65, 1000, 100'000}) {
      EXPECT_TRUE(codec->encode(ones_and(0x3f800000, count), kAnyKey)) << count;
      EXPECT_FALSE(codec->encode(ones_and(0x3f800001, count), kAnyKey)) << count;
    }
  }
}

TEST(Narrow, to_float16_refuses_what_only_float32_holds) {
  const auto codec = make_narrow_codec(at::kHalf);
  EXPECT_TRUE(codec->encode(ones_and(0x33800000, 64), kAnyKey)) << "the smallest subnormal, 2^-24";
  EXPECT_FALSE(codec->encode(ones_and(0x33000000, 64), kAnyKey)) << "half of it";
  EXPECT_TRUE(codec->encode(ones_and(0x477fe000, 64), kAnyKey)) << "the largest, 65504";
  EXPECT_FALSE(codec->encode(ones_and(0x47800000, 64), kAnyKey)) << "the next, 65536";
  EXPECT_TRUE(codec->encode(ones_and(0x7f800000, 64), kAnyKey)) << "infinity";
  EXPECT_FALSE(codec->encode(ones_and(0x7fc00001, 64), kAnyKey)) << "NaN with a long payload";
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
      EXPECT_EQ(encoded->answer, nullptr);
      EXPECT_TRUE(test::same_parts(*encoded, codec->encode(x, kAnyKey).value()));
      EXPECT_TRUE(same_bits(codec->decode(*encoded), x));
    }
    cast.cast_from = at::kDouble;
    EXPECT_FALSE(codec->encode(ones_and(0x3f800001, 64), cast)) << "what was wider is looked at";
  }
}

TEST(Narrow, takes_float32_only) {
  const auto codec = make_narrow_codec();
  for (const auto type : {at::kDouble, at::kBFloat16, at::kHalf, at::kInt}) {
    EXPECT_FALSE(codec->encode(at::ones({256}, type), kAnyKey)) << type;
  }
}

TEST(Narrow, refuses_to_be_made_for_another_type) {
  EXPECT_THROW(make_narrow_codec(at::kFloat), c10::Error);
}

using test::float_classes;
using test::float_tensor;
using test::half_tensor;
using test::same_bits;

void expect_kept(const Codec& codec, const at::Tensor& x) {
  const auto encoded = codec.encode(x, kAnyKey);
  ASSERT_TRUE(encoded);
  EXPECT_TRUE(same_bits(codec.decode(*encoded), x));
}

TEST(Mask, keeps_the_noise_of_dropout_in_a_bit) {
  const auto codec = make_mask_codec();
  const at::Tensor keep = at::ones({16, 33, 16, 16}).mul_(0.9);
  const at::Tensor noise = at::bernoulli(keep, at::detail::createCPUGenerator(3)).div_(0.9);
  const auto encoded = codec->encode(noise, kAnyKey);
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
      ASSERT_TRUE(codec->encode(x, kAnyKey));
      x.narrow(0, at, 1).fill_(2);
      EXPECT_FALSE(codec->encode(x, kAnyKey)) << at << " " << type;
    }
  }
}

TEST(Mask, counts_minus_zero_as_a_value) {
  std::vector<uint32_t> bits(2000, 0);
  bits[7] = 0x80000000;
  expect_kept(*make_mask_codec(), float_tensor(bits));
  bits[8] = 0x3f800000;
  EXPECT_FALSE(make_mask_codec()->encode(float_tensor(bits), kAnyKey));
}

TEST(Mask, refuses_other_types) {
  for (const auto type : {at::kDouble, at::kByte, at::kInt, at::kLong}) {
    EXPECT_FALSE(make_mask_codec()->encode(at::zeros({4096}, type), kAnyKey)) << type;
  }
}

TEST(Sign, decodes_to_one_and_zero) {
  const auto codec = make_sign_codec();
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor x = at::relu(test::normals({4099})).to(type);
    const auto encoded = codec->encode(x, kAnyKey);
    ASSERT_TRUE(encoded);
    EXPECT_TRUE(same_bits(codec->decode(*encoded), x.gt(0).to(type)));
  }
}

/// Returns whether ReLU's backward gives the same bits from x as from what the codec makes of it.
void expect_same_gradient(const at::Tensor& x) {
  const auto codec = make_sign_codec();
  const auto encoded = codec->encode(x, kAnyKey);
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

using test::float_tensor;
using test::same_bits;

struct ReducedFormat {
  int bits = 0;
  int mantissa_bits = 0;
  int largest_exponent = 0;
  int smallest_exponent = 0;  ///< the smallest exponent of a normal number
  int fields = 0;             ///< number in a word

  friend std::ostream& operator<<(std::ostream& out, const ReducedFormat& format) {
    return out << format.bits << " bits";
  }
};

template <typename Op>
void read_format(codecs::TypeOf<Op> /*of*/, ReducedFormat& /*format*/) {}
template <int kExponent, int kMantissa, typename Type, bool kFinite>
void read_format(
    codecs::TypeOf<codecs::Reduced<codecs::SmallFloat<kExponent, kMantissa>, Type, kFinite>> /*of*/,
    ReducedFormat& format) {
  format.mantissa_bits = kMantissa;
  format.largest_exponent = (1 << (kExponent - 1)) - 1;
  format.smallest_exponent = 1 - format.largest_exponent;
}

std::vector<ReducedFormat> reduced_formats() {
  std::vector<ReducedFormat> formats;
  for (const codecs::FieldForm form : codecs::kReducedForms) {
    ReducedFormat& format = formats.emplace_back();
    format.bits = codecs::bits_of(form);
    format.fields = 32 / format.bits;
    codecs::with_field_op</*kFinite=*/true>(form, codecs::Real::kFloat32,
                                            [&](auto op) { read_format(op, format); });
  }
  return formats;
}

class Reduced : public testing::TestWithParam<ReducedFormat> {
 protected:
  at::Tensor through(const at::Tensor& x) const {
    const auto codec = make_reduced_codec(GetParam().bits);
    return codec->decode(codec->encode(x, kAnyKey).value());
  }
};

INSTANTIATE_TEST_SUITE_P(Widths, Reduced, testing::ValuesIn(reduced_formats()),
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
  const double rounded_up =
      largest + std::ldexp(1.0, std::ilogb(largest) - GetParam().mantissa_bits - 1);
  const double smallest = std::ldexp(
      1.0, std::ilogb(rounded_up) - GetParam().largest_exponent + GetParam().smallest_exponent);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double place = std::ldexp(std::max(std::abs(static_cast<double>(from[i])), smallest),
                                    -GetParam().mantissa_bits - 1);
    EXPECT_LE(std::abs(static_cast<double>(from[i]) - to[i]), place) << from[i];
  }
}

/// A saturated sigmoid or tanh lies there, and its gradient hangs on how near it is to 1.
TEST_P(Reduced, cuts_off_no_value_at_the_top) {
  const float near_one = 1.0F - std::ldexp(1.0F, -GetParam().mantissa_bits - 3);
  for (const float scale : {1.0F, 0x1p-70F, 0x1p100F}) {
    at::Tensor x = at::zeros({300});
    x.fill_(near_one * scale);
    EXPECT_EQ(through(x)[7].item<float>(), scale) << "it is nearer to this than to the one below";
  }
}

TEST_P(Reduced, keeps_what_needs_no_more_places) {
  // 1 + j / 2^mantissa over all exponents of the format, both signs.
  std::vector<float> values;
  const ReducedFormat format = GetParam();
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
  const auto encoded = make_reduced_codec(GetParam().bits)->encode(x, kAnyKey);
  ASSERT_TRUE(encoded);
  EXPECT_EQ(encoded->parts[0].numel() * GetParam().fields, x.numel());
  EXPECT_EQ(encoded->parts[1].numel(), 1);
}

TEST_P(Reduced, takes_half_types_where_that_gains_bytes) {
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor x = test::normals({5001}).to(type);
    const auto codec = make_reduced_codec(GetParam().bits);
    const auto encoded = codec->encode(x, kAnyKey);
    ASSERT_EQ(encoded.has_value(), GetParam().fields > 2);
    if (!encoded) continue;
    // The result is that of going through float32: both types hold the format's 5 or 4 significant
    // bits.
    EXPECT_TRUE(same_bits(codec->decode(*encoded), through(x.to(at::kFloat)).to(type))) << type;
  }
}

TEST_P(Reduced, refuses_other_types) {
  for (const auto type : {at::kDouble, at::kInt, at::kBool}) {
    const auto codec = make_reduced_codec(GetParam().bits);
    EXPECT_FALSE(codec->encode(at::zeros({4096}, type), kAnyKey)) << type;
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
    const Encoded encoded = make_reduced_codec(bits)->encode(x, kAnyKey).value();
    const auto* first = static_cast<const uint32_t*>(encoded.parts[0].const_data_ptr());
    return std::pair(first[0], first[1]);
  };
  EXPECT_EQ(words(8), std::pair(0x68U << 16 | 0xf4U << 8 | 0x70U, 0x76U << 8));
  EXPECT_EQ(words(10), std::pair(0x1d0U << 20 | 0x3e8U << 10 | 0x1e0U, 0x1ecU << 10));
  EXPECT_EQ(words(16), std::pair(0xfa00U << 16 | 0x7800U, 0x7b00U << 16));
}

TEST(ReducedLayout, refuses_another_width) {
  EXPECT_THROW(make_reduced_codec(7), c10::Error);
}

using test::same_bits;

at::Tensor index_map(const at::Tensor& x, const PoolGeometry& g, bool ceil_mode = false) {
  return std::get<1>(
      at::max_pool2d_with_indices(x, g.kernel, g.stride, g.padding, g.dilation, ceil_mode));
}

void expect_kept(const at::Tensor& map, const PoolGeometry& geometry) {
  const auto codec = make_pool_map_codec(geometry);
  const auto encoded = codec->encode(map, kAnyKey);
  ASSERT_TRUE(encoded) << map.sizes();
  EXPECT_TRUE(same_bits(codec->decode(*encoded), map)) << map.sizes();
}

const PoolGeometry kTwoByTwo{{16, 12}, {2, 2}, {2, 2}, {0, 0}, {1, 1}};

TEST(PoolMap, keeps_maps_of_many_geometries_in_both_layouts) {
  const PoolGeometry geometries[] = {
      kTwoByTwo,
      {{16, 12}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
      {{16, 12}, {4, 4}, {4, 3}, {2, 2}, {1, 1}},
      {{16, 12}, {3, 2}, {1, 2}, {1, 0}, {2, 3}},
      {{16, 12}, {1, 4}, {1, 1}, {0, 2}, {1, 1}},
      {{7, 5}, {2, 3}, {1, 1}, {1, 1}, {3, 1}},
      {{5, 3}, {4, 4}, {1, 1}, {2, 2}, {1, 1}},
      {{9, 1}, {2, 1}, {2, 1}, {0, 0}, {1, 1}},
  };
  for (const PoolGeometry& g : geometries) {
    const at::Tensor x = test::normals({3, 37, g.input[0], g.input[1]});
    expect_kept(index_map(x, g), g);
    expect_kept(index_map(x.contiguous(at::MemoryFormat::ChannelsLast), g), g);
    expect_kept(index_map(x[0], g), g);
    expect_kept(index_map(x, g, /*ceil_mode=*/true), g);
  }
}

TEST(PoolMap, takes_4_bits_an_index) {
  const at::Tensor map = index_map(test::normals({4, 64, 16, 12}), kTwoByTwo);
  const auto encoded = make_pool_map_codec(kTwoByTwo)->encode(map, kAnyKey);
  ASSERT_TRUE(encoded);
  EXPECT_EQ(encoded->parts[0].nbytes() * 16, map.nbytes());
}

TEST(PoolMap, refuses_an_index_that_is_no_position_of_a_4_by_4_window) {
  const auto codec = make_pool_map_codec(kTwoByTwo);
  const at::Tensor map = index_map(test::normals({4, 64, 16, 12}), kTwoByTwo);
  for (const int64_t wrong : {-1L, 4L, 11L, 16L, 40L, 48L, 191L, 192L, 1L << 32, -(1L << 40)}) {
    at::Tensor other = map.clone();
    other[0][0][0][0] = wrong;
    EXPECT_FALSE(codec->encode(other, kAnyKey)) << wrong;
  }
  const at::Tensor huge = at::full({4, 64, 8, 6}, INT64_MAX, at::kLong);
  EXPECT_FALSE(codec->encode(huge, kAnyKey));
}

TEST(PoolMap, refuses_another_map) {
  const auto codec = make_pool_map_codec(kTwoByTwo);
  const at::Tensor map = index_map(test::normals({4, 64, 16, 12}), kTwoByTwo);
  EXPECT_FALSE(codec->encode(map.to(at::kInt), kAnyKey));
  EXPECT_FALSE(codec->encode(test::in_memory_order(map, {0, 1, 3, 2}), kAnyKey)) << "columns first";
  EXPECT_FALSE(codec->encode(map.flatten(), kAnyKey));
  EXPECT_FALSE(
      make_pool_map_codec({{16, 13}, {2, 2}, {2, 2}, {0, 0}, {1, 1}})->encode(map, kAnyKey));
}

TEST(PoolMap, refuses_windows_whose_rows_interleave) {
  // Columns are 2 apart and rows 3: the third of the first row lies behind the second row's first.
  const PoolGeometry geometry{{9, 3}, {2, 4}, {1, 1}, {0, 2}, {1, 2}};
  const at::Tensor map = index_map(test::normals({3, 37, 9, 3}), geometry);
  EXPECT_FALSE(make_pool_map_codec(geometry)->encode(map, kAnyKey));
}

TEST(PoolMap, refuses_what_would_leave_32_bits) {
  const PoolGeometry wide{{1 << 20, 1 << 20}, {2, 2}, {2, 2}, {0, 0}, {1, 1}};
  EXPECT_FALSE(make_pool_map_codec(wide)->encode(at::zeros({1, 1, 64, 64}, at::kLong), kAnyKey));
}

TEST(PoolMap, refuses_a_geometry_that_does_not_exist) {
  EXPECT_THROW(make_pool_map_codec({{8, 8}, {5, 2}, {1, 1}, {0, 0}, {1, 1}}), c10::Error);
  EXPECT_THROW(make_pool_map_codec({{8, 8}, {2, 0}, {1, 1}, {0, 0}, {1, 1}}), c10::Error);
  EXPECT_THROW(make_pool_map_codec({{0, 8}, {2, 2}, {1, 1}, {0, 0}, {1, 1}}), c10::Error);
  EXPECT_THROW(make_pool_map_codec({{8, 8}, {2, 2}, {0, 1}, {0, 0}, {1, 1}}), c10::Error);
  EXPECT_THROW(make_pool_map_codec({{8, 8}, {2, 2}, {1, 1}, {-1, 0}, {1, 1}}), c10::Error);
  EXPECT_THROW(make_pool_map_codec({{8, 8}, {2, 2}, {1, 1}, {0, 0}, {1, 0}}), c10::Error);
}

}  // namespace
}  // namespace noisemark::memopt
