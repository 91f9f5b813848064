#include "reports/result/warmup.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace noisemark::reports {
namespace {

// Uniform noise of the given half width, the same on every platform.
std::vector<double> trace(size_t n, double noise_frac, const std::function<double(size_t)>& step_s,
                          uint64_t seed = 1) {
  std::mt19937_64 generator(seed);
  std::vector<double> times(n);
  for (size_t i = 0; i < n; ++i) {
    const double unit = static_cast<double>(generator() >> 11U) * 0x1p-53;
    times[i] = step_s(i) * (1 + noise_frac * (2 * unit - 1));
  }
  return times;
}

double flat(size_t) {
  return 0.1;
}

TEST(Warmup, drops_nothing_of_a_steady_run) {
  for (const size_t n : {16, 20, 33, 100, 1000}) {
    const Warmup warmup = detect_warmup(trace(n, 0, flat));
    EXPECT_TRUE(warmup.stable) << n << ": " << warmup.reason;
    EXPECT_EQ(warmup.steps, 0) << n;
  }
}

// 3 standard errors leave less than 1 % of steady runs unsure; 50 seeds at 5 % noise allow for 3.
TEST(Warmup, calls_a_noisy_steady_run_stable) {
  for (const size_t n : {20, 40, 100, 400}) {
    int unsure = 0;
    for (uint64_t seed = 0; seed < 50; ++seed) {
      const Warmup warmup = detect_warmup(trace(n, 0.03, flat, seed));
      unsure += warmup.stable && warmup.steps <= static_cast<int64_t>(n / 4) ? 0 : 1;
    }
    EXPECT_LE(unsure, 3) << n;
  }
}

TEST(Warmup, drops_a_slow_first_step_alone) {
  const auto slow_first = [](size_t i) { return i == 0 ? 0.4 : 0.1; };
  for (const size_t n : {20, 100, 1000}) {
    const Warmup warmup = detect_warmup(trace(n, 0.01, slow_first));
    EXPECT_TRUE(warmup.stable) << warmup.reason;
    EXPECT_GE(warmup.steps, 1) << n;
    EXPECT_LE(warmup.steps, static_cast<int64_t>(n / 8)) << n;
  }
}

TEST(Warmup, drops_a_decay_until_it_is_lost_in_the_noise) {
  const auto decay = [](size_t i) { return 0.1 * (1 + std::exp(-static_cast<double>(i) / 10)); };
  const Warmup warmup = detect_warmup(trace(400, 0.005, decay));
  ASSERT_TRUE(warmup.stable) << warmup.reason;
  // exp(-i / 10) falls below 5 % at 30 and below 0.5 % at 53 steps.
  EXPECT_GE(warmup.steps, 20);
  EXPECT_LE(warmup.steps, 90);
}

TEST(Warmup, drops_everything_before_an_early_change_of_level) {
  const auto change = [](size_t i) { return i < 60 ? 0.13 : 0.1; };
  const Warmup warmup = detect_warmup(trace(300, 0.01, change));
  ASSERT_TRUE(warmup.stable) << warmup.reason;
  EXPECT_GE(warmup.steps, 60);
  EXPECT_LE(warmup.steps, 90);
}

TEST(Warmup, calls_a_late_change_of_level_not_stable) {
  const auto change = [](size_t i) { return i < 200 ? 0.1 : 0.12; };
  const Warmup warmup = detect_warmup(trace(240, 0.01, change));
  EXPECT_FALSE(warmup.stable);
  EXPECT_EQ(warmup.steps, 120);
  EXPECT_NE(warmup.reason.find("last two quarters"), std::string::npos) << warmup.reason;
}

TEST(Warmup, never_calls_a_drift_stable) {
  const auto drift = [](size_t i) { return 0.1 * (1 + 0.002 * static_cast<double>(i)); };
  for (const size_t n : {32, 100, 400}) {
    EXPECT_FALSE(detect_warmup(trace(n, 0.005, drift)).stable) << n;
  }
}

TEST(Warmup, says_when_it_is_too_noisy_to_tell) {
  std::vector<double> times;
  for (size_t i = 0; i < 24; ++i) times.push_back(i % 2 == 0 ? 0.05 : 0.15);
  const Warmup warmup = detect_warmup(times);
  EXPECT_FALSE(warmup.stable);
  EXPECT_NE(warmup.reason.find("too noisy"), std::string::npos) << warmup.reason;
}

TEST(Warmup, says_when_a_run_is_too_short) {
  for (const size_t n : {0, 1, 15}) {
    const Warmup warmup = detect_warmup(trace(n, 0, flat));
    EXPECT_FALSE(warmup.stable);
    EXPECT_EQ(warmup.steps, 0);
    EXPECT_NE(warmup.reason.find("too few"), std::string::npos);
  }
}

TEST(Warmup, always_leaves_at_least_half_of_the_run) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const size_t n = 16 + seed;
    const double noise_frac = 0.002 * static_cast<double>(seed);
    const Warmup warmup = detect_warmup(trace(n, noise_frac, flat, seed));
    EXPECT_LE(warmup.steps, static_cast<int64_t>(n / 2));
  }
}

TEST(Warmup, refuses_times_that_are_none) {
  EXPECT_THROW((void)detect_warmup(std::vector<double>{0.1, -0.1}), std::logic_error);
  EXPECT_THROW((void)detect_warmup(std::vector<double>{std::numeric_limits<double>::quiet_NaN()}),
               std::logic_error);
  EXPECT_FALSE(detect_warmup(std::vector<double>(20, 0.0)).stable);
}

}  // namespace
}  // namespace noisemark::reports
