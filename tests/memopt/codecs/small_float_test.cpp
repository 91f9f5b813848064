#include "memopt/codecs/arithmetic/small_float.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/memopt/codecs/bits.h"

namespace noisemark::memopt::codecs {
namespace {

/// The format in double arithmetic, from its definition; nothing of the code under test.
class Reference {
 public:
  Reference(int exponent_bits, int mantissa_bits)
      : mantissa_bits_(mantissa_bits),
        bias_((1 << (exponent_bits - 1)) - 1),
        infinity_(((1U << exponent_bits) - 1) << mantissa_bits) {
    for (uint32_t code = 0; code < infinity_; ++code) finite_.push_back(value_of(code));
  }

  uint32_t infinity() const { return infinity_; }
  const std::vector<double>& finite() const { return finite_; }

  /// Of a magnitude that is finite: the nearest code, of two the even one, at most the largest.
  uint32_t nearest(double magnitude) const {
    if (magnitude >= finite_.back()) return infinity_ - 1;
    uint32_t best = 0;
    for (uint32_t code = 1; code < infinity_; ++code) {
      const double here = std::abs(finite_[code] - magnitude);
      const double before = std::abs(finite_[best] - magnitude);
      if (here < before || (here == before && code % 2 == 0)) best = code;
    }
    return best;
  }

 private:
  double value_of(uint32_t code) const {
    const int exponent = static_cast<int>(code >> mantissa_bits_);
    const double fraction = std::ldexp(code & ((1U << mantissa_bits_) - 1), -mantissa_bits_);
    return exponent == 0 ? std::ldexp(fraction, 1 - bias_)
                         : std::ldexp(1.0 + fraction, exponent - bias_);
  }

  int mantissa_bits_;
  int bias_;
  uint32_t infinity_;
  std::vector<double> finite_;
};

template <int kExponent, int kMantissa>
struct Format {
  using Code = SmallFloat<kExponent, kMantissa>;
  static const Reference& reference() {
    static const Reference reference(kExponent, kMantissa);
    return reference;
  }
};

template <typename T>
class SmallFloats : public testing::Test {};
using Formats = testing::Types<Format<5, 10>, Format<5, 4>, Format<4, 3>>;
TYPED_TEST_SUITE(SmallFloats, Formats);

TYPED_TEST(SmallFloats, decode_every_code_to_its_value) {
  using Code = typename TypeParam::Code;
  const Reference& reference = TypeParam::reference();
  for (uint32_t code = 0; code < 1U << Code::kBits; ++code) {
    const uint32_t magnitude = code % Code::kSign;
    const float value = float_of(Code::decode(code, 1.0F));
    EXPECT_EQ(std::signbit(value), code >= Code::kSign) << code;
    if (magnitude > reference.infinity()) {
      EXPECT_TRUE(std::isnan(value)) << code;
    } else if (magnitude == reference.infinity()) {
      EXPECT_TRUE(std::isinf(value)) << code;
    } else {
      EXPECT_EQ(std::abs(static_cast<double>(value)), reference.finite()[magnitude]) << code;
    }
  }
}

TYPED_TEST(SmallFloats, encode_what_they_decode_to_the_same_code) {
  using Code = typename TypeParam::Code;
  for (uint32_t code = 0; code < 1U << Code::kBits; ++code) {
    EXPECT_EQ(Code::encode(Code::decode(code, 1.0F), 1.0F), code);
    EXPECT_EQ(Code::encode(Code::decode(code, 0.25F), 4.0F), code);
  }
}

TYPED_TEST(SmallFloats, know_finite_values_by_the_short_way_too) {
  using Code = typename TypeParam::Code;
  for (uint32_t code = 0; code < 1U << Code::kBits; ++code) {
    if (code % Code::kSign >= Code::kInfinity) continue;
    const uint32_t bits = Code::template decode<true>(code, 1.0F);
    EXPECT_EQ(bits, Code::decode(code, 1.0F));
    EXPECT_EQ(Code::template encode<true>(bits + 1, 1.0F), Code::encode(bits + 1, 1.0F));
  }
}

TYPED_TEST(SmallFloats, round_to_nearest_and_ties_to_even_between_all_neighbours) {
  using Code = typename TypeParam::Code;
  const std::vector<double>& finite = TypeParam::reference().finite();
  for (uint32_t code = 0; code + 1 < finite.size(); ++code) {
    const auto middle = static_cast<float>((finite[code] + finite[code + 1]) / 2);
    const uint32_t even = code % 2 == 0 ? code : code + 1;
    EXPECT_EQ(Code::encode(bits_of(middle), 1.0F), even) << code;
    EXPECT_EQ(Code::encode(bits_of(middle) - 1, 1.0F), code) << code;
    EXPECT_EQ(Code::encode(bits_of(middle) + 1, 1.0F), code + 1) << code;
    EXPECT_EQ(Code::encode(bits_of(-middle), 1.0F), even | Code::kSign) << code;
  }
}

TYPED_TEST(SmallFloats, agree_with_a_search_of_all_codes) {
  using Code = typename TypeParam::Code;
  const Reference& reference = TypeParam::reference();
  // Odd, so that all places of the mantissa change; a longer one where a search takes longer.
  const uint32_t step = Code::kBits == 16 ? 0x0042d687 : 0x0012d687;
  for (uint64_t bits = 0; bits < kInfinityBits; bits += step) {
    const auto value = static_cast<uint32_t>(bits);
    EXPECT_EQ(Code::encode(value, 1.0F), reference.nearest(float_of(value))) << value;
  }
}

TYPED_TEST(SmallFloats, saturate_and_keep_infinity_apart) {
  using Code = typename TypeParam::Code;
  const auto largest = static_cast<float>(TypeParam::reference().finite().back());
  for (const float beyond : {largest, largest * 1.5F, 1e30F, std::numeric_limits<float>::max()}) {
    EXPECT_EQ(Code::encode(bits_of(beyond), 1.0F), Code::kLargest);
    EXPECT_EQ(Code::encode(bits_of(-beyond), 1.0F), Code::kLargest | Code::kSign);
  }
  EXPECT_EQ(Code::encode(bits_of(1e30F), 0x1p100F), Code::kLargest) << "the product overflows";
  EXPECT_EQ(Code::encode(kInfinityBits, 1.0F), Code::kInfinity);
  EXPECT_EQ(Code::encode(kInfinityBits | kSignBit, 1.0F), Code::kInfinity | Code::kSign);
}

TYPED_TEST(SmallFloats, keep_nan_whatever_its_payload) {
  using Code = typename TypeParam::Code;
  for (const uint32_t bits : test::float_classes()) {
    const uint32_t code = Code::encode(bits, 1.0F);
    const bool nan = (bits & kMagnitudeBits) > kInfinityBits;
    EXPECT_EQ(code % Code::kSign > Code::kInfinity, nan) << std::hex << bits;
    EXPECT_EQ(code >= Code::kSign, bits >= kSignBit) << std::hex << bits;
    const uint32_t decoded = Code::decode(code, 1.0F);
    EXPECT_EQ((decoded & kMagnitudeBits) > kInfinityBits, nan) << std::hex << bits;
  }
}

}  // namespace
}  // namespace noisemark::memopt::codecs
