#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "memopt/codecs/arithmetic/floats.h"
#include "memopt/codecs/arithmetic/jobs.h"
#include "memopt/codecs/codec_device.h"
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

  /// Encodes a finite magnitude: the nearest code, of two the even one, at most the largest.
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

// The GPU's search on the host: each thread takes its share, blocks join what their threads found,
// and one word joins the blocks.

template <typename Type>
Extent extent_in_shares(const std::vector<typename Type::Bits>& x, size_t blocks, size_t threads) {
  Extent all = 0;
  for (size_t block = 0; block < blocks; ++block) {
    Extent of_block = 0;
    for (size_t thread = 0; thread < threads; ++thread) {
      ExtentSearch<Type> search;
      for (size_t i = block * threads + thread; i < x.size(); i += blocks * threads) {
        search.take(x[i]);
      }
      of_block = joined(of_block, search.extent());
    }
    // An element that a block leaves out because it changes nothing must change nothing.
    if (joined(all, of_block) != all) all = joined(all, of_block);
  }
  return all;
}

template <typename Type>
void expect_the_cpus(Real real, const std::vector<typename Type::Bits>& x) {
  uint32_t number = 0xdeadbeef;
  SearchJob job;
  job.real = real;
  job.x = x.data();
  job.count = static_cast<int64_t>(x.size());
  job.number = &number;
  cpu_codec_device().find_extent(job);
  EXPECT_EQ(extent_in_shares<Type>(x, 3, 64), number) << x.size();
  EXPECT_EQ(extent_in_shares<Type>(x, 1, 1), number) << x.size();
}

std::vector<uint32_t> finite(size_t count) {
  std::vector<uint32_t> all(count);
  uint32_t state = 9;
  for (uint32_t& bits : all) {
    state = state * 1664525 + 1013904223;
    bits = state % 0x7f000000 | (state & 0x80000000);
  }
  return all;
}

TEST(Extent, of_shares_joined_is_that_of_the_whole) {
  for (const size_t count : {1, 5, 63, 64, 1000, 4096}) {
    const std::vector<uint32_t> numbers = finite(count);
    expect_the_cpus<Float32>(Real::kFloat32, numbers);
    std::vector<uint16_t> halves;
    for (const uint32_t bits : numbers) halves.push_back(static_cast<uint16_t>(bits >> 16));
    expect_the_cpus<BFloat16>(Real::kBFloat16, halves);
    expect_the_cpus<Float16>(Real::kFloat16, halves);
  }
}

TEST(Extent, keeps_what_is_not_finite_from_any_place_and_is_no_larger_for_it) {
  for (const size_t place : {0, 1, 63, 191, 192, 999}) {
    for (const uint32_t special : {0x7f800000U, 0xff800000U, 0x7fc00001U, 0xffffffffU}) {
      std::vector<uint32_t> numbers = finite(1000);
      numbers[place] = 0;
      const Extent without = extent_in_shares<Float32>(numbers, 3, 64);
      numbers[place] = special;
      EXPECT_EQ(extent_in_shares<Float32>(numbers, 3, 64), without | kSignBit);
      expect_the_cpus<Float32>(Real::kFloat32, numbers);
    }
  }
}

TEST(Extent, of_zeros_and_of_every_kind_of_value_is_the_cpus) {
  expect_the_cpus<Float32>(Real::kFloat32, std::vector<uint32_t>(100, 0));
  expect_the_cpus<Float32>(Real::kFloat32, std::vector<uint32_t>(100, kSignBit));
  expect_the_cpus<Float32>(Real::kFloat32, test::float_classes());
}

}  // namespace
}  // namespace noisemark::memopt::codecs
