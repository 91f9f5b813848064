#include <ATen/core/PhiloxRNGEngine.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "memopt/codecs/arithmetic/groups.h"
#include "memopt/codecs/codecs.h"
#include "tests/memopt/codecs/bits.h"

namespace noisemark::memopt::codecs {
namespace {

std::array<uint32_t, 4> words_of(PhiloxWords counter, uint32_t low, uint32_t high) {
  const PhiloxWords words = philox(counter, low, high);
  return {words.word[0], words.word[1], words.word[2], words.word[3]};
}

// The known answers that the authors publish with their code, Random123.
TEST(CodecPhilox, gives_the_published_answers) {
  EXPECT_EQ(words_of({{0, 0, 0, 0}}, 0, 0),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(words_of({{ones, ones, ones, ones}}, ones, ones),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words_of({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(CodecPhilox, agrees_with_libtorchs_engine) {
  for (const uint64_t seed : {0ULL, 5ULL, 0x123456789abcdef0ULL}) {
    for (const uint64_t offset : {0ULL, 1ULL, 77777ULL}) {
      at::Philox4_32 engine(seed, /*subsequence=*/9, offset);
      const auto words =
          words_of({{static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32), 9, 0}},
                   static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
      for (const uint32_t word : words) EXPECT_EQ(word, engine()) << seed << " " << offset;
    }
  }
}

}  // namespace
}  // namespace noisemark::memopt::codecs

namespace noisemark::memopt {
namespace {

using test::same_bits;

class Grouped : public testing::TestWithParam<int> {
 protected:
  Encoded encode(const at::Tensor& x, const EncodeKey& key = {}) const {
    return codec_->encode(x, key).value();
  }
  at::Tensor through(const at::Tensor& x, const EncodeKey& key = {}) const {
    return codec_->decode(encode(x, key));
  }
  double codes() const { return (1 << GetParam()) - 1; }
  std::unique_ptr<Codec> codec_ = make_grouped_codec(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Widths, Grouped, testing::Values(4, 2),
                         [](const auto& tested) { return std::to_string(tested.param) + "_bits"; });

/// The step that the codec stored for a group, as a number of x's scale.
double step_of(const Encoded& encoded) {
  const auto numbers = *static_cast<const uint32_t*>(encoded.parts[1].const_data_ptr());
  const auto extent = *static_cast<const uint32_t*>(encoded.parts[2].const_data_ptr());
  const float step = codecs::unpack_numbers(numbers).step;
  return std::ldexp(step, -codecs::scale_exponent(extent, codecs::kGroupTop));
}

TEST_P(Grouped, errs_by_less_than_a_step) {
  const at::Tensor x = test::normals({4, 7, 33, 31});
  const at::Tensor y = through(x);
  const auto* from = x.const_data_ptr<float>();
  const auto* to = y.const_data_ptr<float>();
  for (int64_t first = 0; first < x.numel(); first += 256) {
    const int64_t end = std::min<int64_t>(first + 256, x.numel());
    const auto [low, high] = std::minmax_element(from + first, from + end);
    // Both stored numbers are rounded outwards by a place of float16 (2^-10) at most.
    const double size = std::max(std::abs(*low), std::abs(*high));
    const double step = (*high - *low + size * 0x1p-10) / codes() * (1 + 0x1p-10);
    for (int64_t i = first; i < end; ++i) EXPECT_LE(std::abs(from[i] - to[i]), step) << i;
  }
}

// The mean of n roundings to one of two codes has a standard error of at most step / (2 sqrt(n));
// 6 of them are exceeded once in 5e8, and there are 256 elements. The 16 random bits move the
// expectation by up to 2^-17 step, float32 by less than 2^-15.
TEST_P(Grouped, is_right_on_average) {
  const at::Tensor x = test::normals({256 * 40});
  const at::Tensor one = x.narrow(0, 0, 256).contiguous();
  const int64_t repeats = 4000;
  at::Tensor sum = at::zeros({256}, at::kDouble);
  for (int64_t step = 0; step < repeats; ++step) sum += through(one, {9, step, 0});
  const double tolerance =
      step_of(encode(one)) * (6 / (2 * std::sqrt(static_cast<double>(repeats))) + 0x1p-14);
  const at::Tensor error = (sum / static_cast<double>(repeats) - one).abs();
  EXPECT_LE(error.max().item<double>(), tolerance);
}

TEST_P(Grouped, rounds_up_and_down) {
  const at::Tensor x = test::normals({2560});
  const at::Tensor y = through(x);
  EXPECT_GT((y - x).gt(0).sum().item<int64_t>(), 1000);
  EXPECT_GT((y - x).lt(0).sum().item<int64_t>(), 1000);
}

TEST_P(Grouped, gives_the_same_bits_for_the_same_key_and_others_for_another) {
  const at::Tensor x = test::normals({10'000});
  const EncodeKey key{0x1234567890, 77, 5};
  const Encoded encoded = encode(x, key);
  EXPECT_TRUE(test::same_parts(encode(x, key), encoded));
  const EncodeKey others[] = {{0x1234567891, 77, 5},
                              {0x2234567890, 77, 5},
                              {0x1234567890, 78, 5},
                              {0x1234567890, 77, 6},
                              {0x1234567890, -77, 5},
                              {0x1234567890, 77 + (int64_t{1} << 32), 5},
                              {0x1234567890, 77, 5 + (int64_t{1} << 40)},
                              {0x1234567890, 5, 77}};
  for (const EncodeKey& other : others) {
    EXPECT_FALSE(same_bits(encode(x, other).parts[0], encoded.parts[0]));
    EXPECT_TRUE(same_bits(encode(x, other).parts[1], encoded.parts[1])) << "nothing random there";
  }
}

TEST_P(Grouped, rounds_equal_groups_differently) {
  const at::Tensor group = test::normals({256});
  const at::Tensor y = through(group.repeat({8}));
  for (int64_t i = 1; i < 8; ++i) {
    EXPECT_FALSE(same_bits(y.narrow(0, i * 256, 256), y.narrow(0, 0, 256))) << i;
  }
}

TEST_P(Grouped, keeps_values_that_codes_hit) {
  // Steps of 1 from -8: minimum and step are exact, and nothing is left to chance.
  std::vector<float> values(512);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % (1U << GetParam())) - 8.0F;
  }
  at::Tensor x = at::zeros({512});
  std::memcpy(x.mutable_data_ptr(), values.data(), x.nbytes());
  EXPECT_TRUE(same_bits(through(x), x));
  EXPECT_TRUE(same_bits(through(x * 0x1p-90), x * 0x1p-90));
  EXPECT_TRUE(same_bits(through(x * 0x1p100), x * 0x1p100));
}

TEST_P(Grouped, keeps_constant_groups) {
  EXPECT_TRUE(same_bits(through(at::zeros({600})), at::zeros({600})));
  const at::Tensor x = at::full({600}, -3.25);
  EXPECT_TRUE(same_bits(through(x), x));
}

TEST_P(Grouped, makes_a_group_with_infinity_or_nan_nan_and_leaves_the_others) {
  for (const double bad :
       {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    const at::Tensor x = test::normals({256 * 4});
    const at::Tensor clean = through(x);
    at::Tensor dirty = x.clone();
    dirty[256 + 17] = bad;
    const at::Tensor y = through(dirty);
    EXPECT_TRUE(y.narrow(0, 256, 256).isnan().all().item<bool>());
    EXPECT_TRUE(same_bits(y.narrow(0, 0, 256), clean.narrow(0, 0, 256)));
    EXPECT_TRUE(same_bits(y.narrow(0, 512, 512), clean.narrow(0, 512, 512)));
  }
}

TEST_P(Grouped, never_makes_a_finite_value_infinite) {
  const float largest = std::numeric_limits<float>::max();
  const at::Tensor x = at::linspace(-largest / 2, largest / 2, 512).mul_(2);
  EXPECT_TRUE(through(x).isfinite().all().item<bool>());
  const at::Tensor bf16 = x.clamp(-0x1.fep127, 0x1.fep127).to(at::kBFloat16);
  EXPECT_TRUE(through(bf16).isfinite().all().item<bool>());
  const at::Tensor fp16 = at::linspace(-65504, 65504, 512).to(at::kHalf);
  EXPECT_TRUE(through(fp16).isfinite().all().item<bool>());
}

TEST_P(Grouped, takes_its_bits_and_a_word_for_each_group) {
  const Encoded encoded = encode(test::normals({512 * 100}));
  EXPECT_EQ(encoded.parts[0].nbytes() * 8, 512 * 100 * GetParam());
  EXPECT_EQ(encoded.parts[1].nbytes(), 200 * 4);
}

TEST_P(Grouped, takes_half_types) {
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor x = test::normals({5001}).to(type);
    // Both go through float32, and what comes out is rounded once more.
    EXPECT_TRUE(same_bits(through(x), through(x.to(at::kFloat)).to(type))) << type;
  }
}

TEST_P(Grouped, refuses_other_types) {
  for (const auto type : {at::kDouble, at::kInt, at::kBool}) {
    EXPECT_FALSE(codec_->encode(at::zeros({4096}, type), {})) << type;
  }
}

TEST(GroupedWidth, is_4_or_2) {
  EXPECT_THROW(make_grouped_codec(3), c10::Error);
}

}  // namespace
}  // namespace noisemark::memopt
