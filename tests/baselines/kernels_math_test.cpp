#include "baselines/kernels/math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace noisemark::baselines::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(KernelMath, exp_is_within_2e_7_of_the_exact_value_over_its_whole_range) {
  double worst = 0;
  for (int i = -870000; i <= 870000; ++i) {
    const float x = static_cast<float>(i) * 1e-4f;
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(exp_of(x)) / exact - 1));
  }
  EXPECT_LE(worst, 2e-7);  // 1.7 units in the last place of a float32
}

TEST(KernelMath, exp_saturates_beyond_87) {
  EXPECT_EQ(exp_of(0.0f), 1.0f);
  EXPECT_EQ(exp_of(87.5f), exp_of(87.0f));
  EXPECT_EQ(exp_of(kInfinity), exp_of(87.0f));
  EXPECT_EQ(exp_of(-kInfinity), exp_of(-87.0f));
  EXPECT_GT(exp_of(-kInfinity), 0.0f);
}

TEST(KernelMath, activations_and_slopes_equal_their_definitions_in_double) {
  for (int i = -12000; i <= 12000; ++i) {
    const float z = static_cast<float>(i) * 0.01f;
    const double s = 1 / (1 + std::exp(-static_cast<double>(z)));
    EXPECT_NEAR(activate<Act::kSilu>(z), z * s, 4e-7 * std::max(1.0, std::abs(z * s))) << z;
    EXPECT_NEAR(slope<Act::kSilu>(z), s * (1 + z * (1 - s)), 1e-6) << z;
    EXPECT_EQ(activate<Act::kRelu>(z), std::max(z, 0.0f));
    EXPECT_EQ(slope<Act::kRelu>(z), z > 0 ? 1.0f : 0.0f);
    EXPECT_EQ(activate<Act::kNone>(z), z);
    EXPECT_EQ(slope<Act::kNone>(z), 1.0f);
  }
}

TEST(KernelMath, non_finite_values_stay_visible_through_the_activations) {
  EXPECT_TRUE(std::isnan(activate<Act::kSilu>(kNan)));
  EXPECT_TRUE(std::isnan(activate<Act::kRelu>(kNan)));
  EXPECT_TRUE(std::isnan(slope<Act::kSilu>(kNan)));
  EXPECT_EQ(activate<Act::kSilu>(kInfinity), kInfinity);
  EXPECT_EQ(activate<Act::kRelu>(kInfinity), kInfinity);
}

float round_trip(float value) {
  BFloat16 stored{};
  store(stored, value);
  return load(stored);
}

TEST(KernelMath, bfloat16_rounds_to_nearest_even) {
  const auto value = [](uint32_t bits) { return std::bit_cast<float>(bits); };
  EXPECT_EQ(round_trip(value(0x3f800000)), value(0x3f800000));
  EXPECT_EQ(round_trip(value(0x3f807fff)), value(0x3f800000));
  EXPECT_EQ(round_trip(value(0x3f808000)), value(0x3f800000));  // a tie, down to even
  EXPECT_EQ(round_trip(value(0x3f818000)), value(0x3f820000));  // a tie, up to even
  EXPECT_EQ(round_trip(value(0x3f808001)), value(0x3f810000));
  EXPECT_EQ(round_trip(value(0xbf808001)), value(0xbf810000));
  EXPECT_EQ(round_trip(value(0x7f7fffff)), kInfinity);
  EXPECT_EQ(round_trip(kInfinity), kInfinity);
  EXPECT_EQ(round_trip(-kInfinity), -kInfinity);
  EXPECT_TRUE(std::isnan(round_trip(kNan)));
  EXPECT_TRUE(std::isnan(round_trip(value(0x7fffffff))));  // must not round into a number
}

}  // namespace
}  // namespace noisemark::baselines::kernels
