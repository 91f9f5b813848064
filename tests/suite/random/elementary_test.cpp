#include "suite/random/elementary.h"

#include <ATen/core/PhiloxRNGEngine.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace noisemark::suite {
namespace {

/// Coarse sweep of the 32-bit arguments, dense where functions change their branch.
std::vector<uint32_t> arguments() {
  std::vector<uint32_t> values;
  for (uint64_t k = 0; k < (uint64_t{1} << 32); k += 65'521) {
    values.push_back(static_cast<uint32_t>(k));
  }
  for (uint64_t edge = 0; edge <= 8; ++edge) {
    const uint64_t center = edge << 29;
    for (uint64_t k = 0; k < 2000; ++k) values.push_back(static_cast<uint32_t>(center + k - 1000));
  }
  return values;
}

TEST(Elementary, logarithm_is_within_1e_15_of_the_extended_precision_one) {
  for (const uint32_t k : arguments()) {
    const long double u = (static_cast<long double>(k) + 1) / 4294967296.0L;
    const long double expected = -std::log(u);
    const long double bound = 1e-15L * expected;  // the header's contract
    ASSERT_LE(std::abs(negative_log(k) - expected), bound) << k;
  }
}

TEST(Elementary, sine_and_cosine_are_within_3e_16_of_the_extended_precision_ones) {
  for (const uint32_t turn : arguments()) {
    const long double angle = turn * (std::numbers::pi_v<long double> / 2147483648.0L);
    const SinCos result = sin_cos_turn(turn);
    ASSERT_LE(std::abs(result.sin - std::sin(angle)), 3e-16L) << turn;
    ASSERT_LE(std::abs(result.cos - std::cos(angle)), 3e-16L) << turn;
  }
}

TEST(Elementary, exact_points_are_exact) {
  EXPECT_EQ(negative_log(0xffffffffU), 0.0);
  EXPECT_EQ(negative_log(0), 32 * std::numbers::ln2);
  EXPECT_EQ(negative_log(0x7fffffffU), std::numbers::ln2);
  EXPECT_EQ(sin_cos_turn(0).cos, 1.0);
  EXPECT_EQ(sin_cos_turn(0x40000000U).sin, 1.0);
  EXPECT_EQ(sin_cos_turn(0x80000000U).cos, -1.0);
  EXPECT_EQ(sin_cos_turn(0xc0000000U).sin, -1.0);
}

constexpr PhiloxPosition kPosition{{0xa4093822U, 0x299f31d0U},
                                   {0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}};

std::array<uint64_t, kNormals> bits_of(NormalKernel kernel, const PhiloxPosition& position) {
  std::array<double, kNormals> normals{};
  kernel(position, normals);
  return std::bit_cast<std::array<uint64_t, kNormals>>(normals);
}

TEST(NormalKernel, every_instruction_set_gives_the_same_bits) {
  const auto& kernels = normal_kernels();
  ASSERT_FALSE(kernels.empty());
  for (uint32_t call = 0; call < 100; ++call) {
    PhiloxPosition position = kPosition;
    position.counter[0] += call * uint32_t{kNormalBlocks};
    const auto expected = bits_of(kernels.front().kernel, position);
    for (const auto& entry : kernels) {
      ASSERT_EQ(bits_of(entry.kernel, position), expected) << entry.instruction_set;
    }
  }
}

TEST(NormalKernel, is_box_muller_on_the_words_of_atens_philox) {
  at::Philox4_32 engine(uint64_t{kPosition.key[1]} << 32 | kPosition.key[0],
                        uint64_t{kPosition.counter[3]} << 32 | kPosition.counter[2]);
  engine.set_offset(uint64_t{kPosition.counter[1]} << 32 | kPosition.counter[0]);
  std::array<double, kNormals> normals{};
  normal_kernels().back().kernel(kPosition, normals);
  for (size_t pair = 0; pair < normals.size() / 2; ++pair) {
    const double radius = std::sqrt(2.0 * negative_log(engine()));
    const SinCos angle = sin_cos_turn(engine());
    ASSERT_EQ(normals[2 * pair], radius * angle.cos);
    ASSERT_EQ(normals[2 * pair + 1], radius * angle.sin);
  }
}

}  // namespace
}  // namespace noisemark::suite
