#include "suite/random/elementary.h"

#include <gtest/gtest.h>

#include <algorithm>
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

}  // namespace
}  // namespace noisemark::suite
