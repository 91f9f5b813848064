#include "suite/probes/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace noisemark::suite {
namespace {

std::vector<reports::MemoryPoint> wave(size_t points) {
  std::vector<reports::MemoryPoint> result;
  for (size_t i = 0; i < points; ++i) {
    const auto level = static_cast<int64_t>(1000 + 900 * std::sin(static_cast<double>(i) / 7));
    result.push_back({static_cast<double>(i) * 0.001, {level, 1}});
  }
  return result;
}

TEST(Timeline, keeps_a_short_one_whole) {
  EXPECT_EQ(thin_timeline(wave(400), 400).size(), 400U);
  EXPECT_TRUE(thin_timeline({}, 400).empty());
}

TEST(Timeline, stays_within_the_limit_in_order_with_its_ends) {
  const auto points = wave(10'007);
  const auto kept = thin_timeline(points, 400);
  EXPECT_LE(kept.size(), 400U);
  EXPECT_GE(kept.size(), 300U);
  EXPECT_EQ(kept.front().time_s, points.front().time_s);
  EXPECT_EQ(kept.back().time_s, points.back().time_s);
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end(),
                             [](const auto& a, const auto& b) { return a.time_s < b.time_s; }));
}

TEST(Timeline, keeps_a_spike_of_one_point) {
  auto points = wave(5000);
  points[3210].by_category = {1'000'000, 0};
  const auto kept = thin_timeline(points, 400);
  EXPECT_TRUE(std::any_of(kept.begin(), kept.end(),
                          [](const auto& p) { return p.by_category[0] == 1'000'000; }));
}

TEST(Timeline, copes_with_points_at_one_instant) {
  auto points = wave(5000);
  for (auto& point : points) point.time_s = 1;
  const auto kept = thin_timeline(points, 400);
  EXPECT_LE(kept.size(), 400U);
  EXPECT_GE(kept.size(), 3U);
}

}  // namespace
}  // namespace noisemark::suite
