#include "suite/random/counter_rng.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <span>
#include <vector>

namespace noisemark::suite {
namespace {

constexpr std::array kStreams{Stream::kData,     Stream::kOrder,     Stream::kFlip,
                              Stream::kTimestep, Stream::kNoise,     Stream::kDropout,
                              Stream::kInit,     Stream::kEvalNoise, Stream::kSampler,
                              Stream::kPerturb,  Stream::kSubset};
constexpr uint64_t kSeed = 0x0123456789abcdef;

using Block = std::array<uint32_t, 4>;

/// One block of at::Philox4_32 at a counter and key given as Salmon et al. write them.
Block aten_block(const Block& counter, const std::array<uint32_t, 2>& key) {
  at::Philox4_32 engine(uint64_t{key[1]} << 32 | key[0], uint64_t{counter[3]} << 32 | counter[2]);
  engine.set_offset(uint64_t{counter[1]} << 32 | counter[0]);
  return {engine(), engine(), engine(), engine()};
}

/// Known answers of Philox4x32-10, published with Random123 (Salmon et al. 2011).
TEST(Philox, gives_the_published_words) {
  EXPECT_EQ(aten_block({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
  constexpr uint32_t kAll = 0xffffffffU;
  EXPECT_EQ(aten_block({kAll, kAll, kAll, kAll}, {kAll, kAll}),
            (Block{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
  EXPECT_EQ(
      aten_block({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}, {0xa4093822U, 0x299f31d0U}),
      (Block{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}));
}

TEST(CounterRng, places_seed_stream_sample_and_step_as_documented) {
  CounterRng rng(kSeed, Stream::kNoise, 2, 3);
  for (uint32_t block = 0; block < 3; ++block) {
    const Block expected = aten_block({block, 5, 3, 2}, {0x89abcdefU, 0x01234567U});
    for (const uint32_t word : expected) ASSERT_EQ(rng.next_u32(), word);
  }
}

/// Expected values come from an independent implementation in Python (integers of any size, math
/// of the C library), rounded to float.
TEST(CounterRng, locked_numbers_do_not_change) {
  CounterRng words(kSeed, Stream::kNoise, 2, 3);
  EXPECT_EQ(words.next_u64(), 0xc005836727026cd0U);
  std::array<float, 4> normals{};
  CounterRng(kSeed, Stream::kNoise, 2, 3).fill_normal(normals);
  EXPECT_EQ(normals, (std::array{0x1.0cc8aap-10F, -0x1.f09564p+0F, 0x1.2b7c9p-1F, 0x1.3226bep-6F}));
}

TEST(CounterRng, neighbouring_keys_share_no_first_block) {
  std::set<std::pair<uint64_t, uint64_t>> blocks;
  size_t sequences = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    for (const Stream stream : kStreams) {
      for (uint64_t step = 0; step < 16; ++step) {
        for (uint64_t sample = 0; sample < 16; ++sample) {
          CounterRng rng(seed, stream, step, sample);
          const uint64_t low = rng.next_u64();
          blocks.emplace(low, rng.next_u64());
          ++sequences;
        }
      }
    }
  }
  EXPECT_EQ(blocks.size(), sequences);
}

TEST(CounterRng, refuses_a_step_or_sample_that_would_collide) {
  EXPECT_THROW(CounterRng(0, Stream::kNoise, uint64_t{1} << 32, 0), c10::Error);
  EXPECT_THROW(CounterRng(0, Stream::kNoise, 0, uint64_t{1} << 32), c10::Error);
  EXPECT_NO_THROW(CounterRng(0, Stream::kNoise, 0xffffffffU, 0xffffffffU));
}

TEST(CounterRng, a_copy_continues_from_the_same_position) {
  CounterRng rng(1, Stream::kData, 0, 0);
  static_cast<void>(rng.next_u32());
  CounterRng copy = rng;
  for (int i = 0; i < 10; ++i) ASSERT_EQ(copy.next_u32(), rng.next_u32());
}

/// Pearson's chi-square of 10 equally likely values: 9 degrees of freedom, 33.7 is exceeded with
/// probability 1e-4; the draw is fixed, so the test does not flicker.
TEST(CounterRng, next_below_is_uniform) {
  constexpr int kDraws = 100'000;
  std::array<int, 10> counts{};
  CounterRng rng(7, Stream::kTimestep, 0, 0);
  for (int i = 0; i < kDraws; ++i) ++counts.at(rng.next_below(10));
  double chi_square = 0;
  for (const int count : counts) {
    chi_square += (count - kDraws / 10.0) * (count - kDraws / 10.0) / (kDraws / 10.0);
  }
  EXPECT_LT(chi_square, 33.7);
}

/// With bound 3 * 2^62 a quarter of the draws must be rejected; taking the remainder without
/// rejection would put half of the results, not a third, below 2^62.
TEST(CounterRng, next_below_has_no_remainder_bias) {
  constexpr int kDraws = 20'000;
  constexpr uint64_t kThird = uint64_t{1} << 62;
  CounterRng rng(7, Stream::kTimestep, 1, 0);
  int low = 0;
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t draw = rng.next_below(3 * kThird);
    ASSERT_LT(draw, 3 * kThird);
    low += draw < kThird ? 1 : 0;
  }
  const double five_sigma = 5 * std::sqrt(kDraws * (1.0 / 3) * (2.0 / 3));
  EXPECT_NEAR(low, kDraws / 3.0, five_sigma);
}

TEST(CounterRng, next_below_one_is_zero_and_zero_is_refused) {
  CounterRng rng(0, Stream::kOrder, 0, 0);
  EXPECT_EQ(rng.next_below(1), 0U);
  EXPECT_THROW(static_cast<void>(rng.next_below(0)), c10::Error);
}

TEST(CounterRng, uniforms_lie_above_zero_and_reach_at_most_one) {
  constexpr int kDraws = 100'000;
  CounterRng rng(3, Stream::kSampler, 0, 0);
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = rng.next_uniform();
    ASSERT_GT(u, 0.0);
    ASSERT_LE(u, 1.0);
    sum += u;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 5 * std::sqrt(1.0 / 12 / kDraws));  // five standard errors
}

/// Moments of N draws lie within five standard errors: Var z = 1, Var z^2 = 2, Var z^4 = 96.
TEST(CounterRng, normals_have_the_moments_of_a_standard_normal) {
  std::vector<double> z(1 << 20);
  CounterRng(11, Stream::kNoise, 0, 0).fill_normal(z);
  const auto n = static_cast<double>(z.size());
  double mean = 0;
  double second = 0;
  double fourth = 0;
  for (const double value : z) {
    mean += value / n;
    second += value * value / n;
    fourth += value * value * value * value / n;
  }
  EXPECT_NEAR(mean, 0, 5 * std::sqrt(1 / n));
  EXPECT_NEAR(second, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(fourth, 3, 5 * std::sqrt(96 / n));
}

/// Kolmogorov-Smirnov: sqrt(n) D above 2.3 has probability 5e-5.
TEST(CounterRng, normals_follow_the_normal_distribution) {
  std::vector<double> z(1 << 16);
  CounterRng(12, Stream::kNoise, 0, 0).fill_normal(z);
  std::sort(z.begin(), z.end());
  const auto n = static_cast<double>(z.size());
  double distance = 0;
  for (size_t i = 0; i < z.size(); ++i) {
    const double cdf = 0.5 * std::erfc(-z[i] / std::sqrt(2.0));
    distance = std::max({distance, std::abs(cdf - static_cast<double>(i) / n),
                         std::abs(cdf - static_cast<double>(i + 1) / n)});
  }
  EXPECT_LT(std::sqrt(n) * distance, 2.3);
}

/// The correlation of independent draws has a standard error of 1 / sqrt(n).
TEST(CounterRng, neighbouring_sequences_are_uncorrelated) {
  constexpr size_t kCount = 1 << 16;
  const auto draw = [](Stream stream, uint64_t step, uint64_t sample) {
    std::vector<double> z(kCount);
    CounterRng(5, stream, step, sample).fill_normal(z);
    return z;
  };
  const auto reference = draw(Stream::kNoise, 10, 10);
  for (const auto& other : {draw(Stream::kNoise, 10, 11), draw(Stream::kNoise, 11, 10),
                            draw(Stream::kEvalNoise, 10, 10)}) {
    const double dot = std::inner_product(other.begin(), other.end(), reference.begin(), 0.0);
    EXPECT_LT(std::abs(dot / kCount), 5 / std::sqrt(static_cast<double>(kCount)));
  }
}

TEST(CounterRng, float_normals_are_the_double_ones_rounded) {
  std::vector<float> single(1001);
  std::vector<double> full(1001);
  CounterRng(1, Stream::kNoise, 0, 0).fill_normal(single);
  CounterRng(1, Stream::kNoise, 0, 0).fill_normal(full);
  for (size_t i = 0; i < full.size(); ++i) ASSERT_EQ(single[i], static_cast<float>(full[i])) << i;
}

TEST(CounterRng, normals_in_parts_of_whole_blocks_equal_one_call) {
  std::vector<float> whole(1000);
  std::vector<float> parts(1000);
  CounterRng(1, Stream::kNoise, 0, 0).fill_normal(whole);
  CounterRng rng(1, Stream::kNoise, 0, 0);
  rng.fill_normal(std::span(parts).subspan(0, 300));
  rng.fill_normal(std::span(parts).subspan(300, 4));
  rng.fill_normal(std::span(parts).subspan(304));
  EXPECT_EQ(parts, whole);
}

TEST(CounterRng, words_after_normals_come_from_the_next_block) {
  CounterRng mixed(1, Stream::kNoise, 0, 0);
  std::array<float, 5> normals{};
  mixed.fill_normal(normals);  // uses two blocks, the second in part
  CounterRng words(1, Stream::kNoise, 0, 0);
  for (int i = 0; i < 8; ++i) static_cast<void>(words.next_u32());
  EXPECT_EQ(mixed.next_u32(), words.next_u32());
}

TEST(DeriveSeed, differs_between_seeds_streams_and_steps) {
  std::set<uint64_t> seeds;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (uint64_t step = 0; step < 10; ++step) {
      seeds.insert(derive_seed(seed, Stream::kDropout, step));
      seeds.insert(derive_seed(seed, Stream::kInit, step));
    }
  }
  EXPECT_EQ(seeds.size(), 200U);
  EXPECT_EQ(derive_seed(4, Stream::kInit, 0), derive_seed(4, Stream::kInit, 0));
}

TEST(StreamName, is_different_for_every_stream) {
  std::set<std::string_view> names;
  for (const Stream stream : kStreams) names.insert(stream_name(stream));
  EXPECT_EQ(names.size(), kStreams.size());
  EXPECT_THROW(static_cast<void>(stream_name(static_cast<Stream>(99))), c10::Error);
}

}  // namespace
}  // namespace noisemark::suite
