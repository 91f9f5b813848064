#include "suite/data/smooth_field.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace noisemark::suite {
namespace {

std::vector<double> field(uint64_t sample, const FieldShape& shape) {
  CounterRng rng(1, Stream::kData, 0, sample);
  std::vector<double> out(
      static_cast<size_t>(shape.channels * shape.resolution * shape.resolution));
  SmoothField(rng, shape).fill(out);
  return out;
}

TEST(SmoothField, stays_within_minus_one_and_one) {
  for (uint64_t sample = 0; sample < 50; ++sample) {
    for (const double value : field(sample, {3, 17, 6, 4})) {
      ASSERT_LE(std::abs(value), 1 + 1e-12);  // amplitudes add up to 1, to rounding
    }
  }
}

/// The derivative of waves of at most f periods whose amplitudes add up to 1 is at most 2 pi f per
/// width, so neighbours differ by at most 2 pi f / resolution.
TEST(SmoothField, neighbours_differ_by_no_more_than_the_highest_frequency_allows) {
  const FieldShape shape{1, 32, 6, 3};
  const double bound = 2 * M_PI * 3 / 32;
  for (uint64_t sample = 0; sample < 20; ++sample) {
    const auto values = field(sample, shape);
    for (int64_t y = 0; y < 31; ++y) {
      for (int64_t x = 0; x < 31; ++x) {
        ASSERT_LE(std::abs(values[y * 32 + x + 1] - values[y * 32 + x]), bound);
        ASSERT_LE(std::abs(values[(y + 1) * 32 + x] - values[y * 32 + x]), bound);
      }
    }
  }
}

TEST(SmoothField, wraps_around_its_borders) {
  const FieldShape shape{1, 16, 4, 2};
  const auto values = field(3, shape);
  const double bound = 2 * M_PI * 2 / 16;
  for (int64_t i = 0; i < 16; ++i) {
    ASSERT_LE(std::abs(values[i * 16] - values[i * 16 + 15]), bound);
    ASSERT_LE(std::abs(values[i] - values[15 * 16 + i]), bound);
  }
}

TEST(SmoothField, differs_between_samples_and_channels_and_varies_in_space) {
  const auto first = field(0, {2, 16, 4, 2});
  const auto second = field(1, {2, 16, 4, 2});
  EXPECT_NE(first, second);
  EXPECT_NE(std::vector(first.begin(), first.begin() + 256),
            std::vector(first.begin() + 256, first.end()));
  EXPECT_GT(std::abs(first[0] - first[8 * 16 + 8]), 1e-3);
}

}  // namespace
}  // namespace noisemark::suite
