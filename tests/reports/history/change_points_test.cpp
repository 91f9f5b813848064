#include "reports/history/change_points.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>

#include "reports/base/file.h"

namespace noisemark::reports {
namespace {

/// Roughly normal and the same on every platform: the sum of twelve uniform draws.
class Noise {
 public:
  explicit Noise(uint64_t seed) : generator_(seed) {}
  double operator()() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += std::ldexp(static_cast<double>(generator_() >> 11U), -53);
    return sum;
  }

 private:
  std::mt19937_64 generator_;
};

/// Values of each level with noise of standard deviation 1.
std::vector<double> levels(const std::vector<std::pair<size_t, double>>& parts, uint64_t seed) {
  Noise noise(seed);
  std::vector<double> values;
  for (const auto& [count, level] : parts) {
    for (size_t i = 0; i < count; ++i) values.push_back(level + noise());
  }
  return values;
}

std::vector<size_t> positions(const std::vector<ChangePoint>& changes) {
  std::vector<size_t> all;
  for (const ChangePoint& change : changes) all.push_back(change.at);
  return all;
}

/// The definition, term by term.
double energy_of(const std::vector<double>& values, size_t at, size_t end) {
  double left = 0;
  double right = 0;
  double between = 0;
  for (size_t i = 0; i < end; ++i) {
    for (size_t j = i + 1; j < end; ++j) {
      const double distance = std::abs(values[i] - values[j]);
      (j < at ? left : i >= at ? right : between) += distance;
    }
  }
  const auto n = static_cast<double>(at);
  const auto m = static_cast<double>(end - at);
  const double energy =
      2 * between / (n * m) - 2 * left / (n * (n - 1)) - 2 * right / (m * (m - 1));
  return n * m / (n + m) * energy;
}

TEST(BestSplit, has_the_greatest_energy_by_the_definition) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<double> values = levels({{7 + seed, 0}, {9, 1}}, seed);
    values[3] = values[5];  // ties
    const Split split = best_split(values, 3);
    double greatest = 0;
    size_t at = 0;
    for (size_t i = 3; i + 3 <= values.size(); ++i) {
      for (size_t end = i + 3; end <= values.size(); ++end) {
        const double energy = energy_of(values, i, end);
        if (at != 0 && energy <= greatest) continue;
        at = i;
        greatest = energy;
      }
    }
    EXPECT_EQ(split.at, at);
    EXPECT_NEAR(split.energy, greatest, 1e-12 * greatest) << "sums in another order";
  }
}

TEST(BestSplit, does_not_lose_small_differences_of_large_values) {
  std::vector<double> values = levels({{10, 0}, {10, 3}}, 1);
  const Split near = best_split(values, 3);
  for (double& value : values) value += 1e9;
  const Split far = best_split(values, 3);
  EXPECT_EQ(near.at, far.at);
  // A value of 1e9 holds seven digits behind the point.
  EXPECT_NEAR(near.energy, far.energy, 1e-5);
}

TEST(ChangePoints, finds_a_step_where_it_is) {
  const std::vector<double> values = levels({{15, 100}, {12, 94}}, 1);
  const std::vector<ChangePoint> changes = change_points(values);
  ASSERT_EQ(positions(changes), std::vector<size_t>{15});
  EXPECT_LE(changes[0].p, 0.01);
}

TEST(ChangePoints, finds_several_steps_up_and_down) {
  const std::vector<double> values = levels({{12, 0}, {15, 8}, {10, 0}, {14, -6}}, 2);
  EXPECT_EQ(positions(change_points(values)), (std::vector<size_t>{12, 27, 37}));
}

TEST(ChangePoints, takes_one_outlier_for_no_change) {
  std::vector<double> values = levels({{30, 0}}, 3);
  values[14] += 50;
  EXPECT_TRUE(change_points(values).empty());
}

TEST(ChangePoints, finds_nothing_in_equal_values_and_the_step_of_values_without_noise) {
  EXPECT_TRUE(change_points(std::vector<double>(40, 0.1)).empty());
  std::vector<double> values(20, 0.1);
  values.insert(values.end(), 20, 0.2);
  EXPECT_EQ(positions(change_points(values)), std::vector<size_t>{20});
}

// The series with which Apache Otava tests its own search (change_point_divisive_test.py).
TEST(ChangePoints, are_those_of_another_program_that_searches_both_ends) {
  const std::vector<double> values = {0.3,  2.4,   1.5,   -0.9,  -0.5,  99.7,  98.3,
                                      99.1, 149.0, 149.7, 149.5, 149.1, 148.8, 150.0};
  ChangePointOptions options;
  options.level = 0.05;  // 3 values beside 6 have 84 orders
  EXPECT_EQ(positions(change_points(values, options)), (std::vector<size_t>{5, 8}));
}

/// Counts, among 100 series of `runs` whose values are 8 % higher in `slow` runs from the 13th on,
/// with noise of 2 %, those in which a change is found within one run of where they begin or end.
int reverted_regressions_found(size_t runs, size_t slow) {
  ChangePointOptions options;
  int found = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    options.seed = seed;
    const auto changes =
        change_points(levels({{12, 50}, {slow, 54}, {runs - slow - 12, 50}}, 5000 + seed), options);
    const auto is_near = [&](size_t at) {
      return std::any_of(changes.begin(), changes.end(), [&](const ChangePoint& change) {
        return change.at + 1 >= at && change.at <= at + 1;
      });
    };
    found += is_near(12) || is_near(12 + slow) ? 1 : 0;
  }
  return found;
}

TEST(ChangePoints, finds_a_regression_that_was_reverted) {
  EXPECT_GE(reverted_regressions_found(24, 5), 90) << "none, where a right part has no end";
  EXPECT_GE(reverted_regressions_found(30, 4), 90) << "likewise";
}

// Every order of such a series is equally likely, so the test is exact: the number of false alarms
// is binomial with at most `level`. The bound is exceeded with a probability below 1e-4.
TEST(ChangePoints, raises_a_false_alarm_in_one_series_of_a_hundred) {
  const int series = 1000;
  ChangePointOptions options;
  int alarms = 0;
  for (int i = 0; i < series; ++i) {
    options.seed = static_cast<uint64_t>(i);
    const auto values = levels({{24, 5}}, 1000 + options.seed);
    alarms += change_points(values, options).empty() ? 0 : 1;
  }
  EXPECT_LE(alarms, 23) << "of " << series;
  const auto expect_said = [](const std::string& page, const std::string& words) {
    const std::string text = read_file(std::string(NOISEMARK_REPORTS "/") + page);
    EXPECT_NE(text.find(words), std::string::npos) << page << " should say: " << words;
  };
  const std::string figure = std::to_string(alarms);
  expect_said("README.md", "a false alarm in " + figure + " of 1,000 series");
  expect_said("history/README.md", "nothing changed " + figure + " show a change too");
  EXPECT_DOUBLE_EQ(kFalseAlarms, static_cast<double>(alarms) / series) << "what histories say";
  EXPECT_GT(alarms, 0) << "a test that never raises an alarm would not use its level";
}

// Three standard deviations and fifteen runs on each side.
TEST(ChangePoints, finds_a_clear_step_in_nearly_every_series) {
  int found = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto changes = change_points(levels({{15, 0}, {15, 3}}, seed));
    found += !changes.empty() && changes[0].at >= 13 && changes[0].at <= 17 ? 1 : 0;
  }
  EXPECT_GE(found, 97);
}

TEST(ChangePoints, says_the_same_again_and_of_values_in_another_unit) {
  const std::vector<double> values = levels({{12, 0}, {12, 2}}, 5);
  std::vector<double> scaled = values;
  for (double& value : scaled) value = 1024 * value;
  EXPECT_EQ(positions(change_points(values)), positions(change_points(values)));
  EXPECT_EQ(positions(change_points(values)), positions(change_points(scaled)));
}

TEST(ChangePoints, needs_as_many_values_as_there_must_be_orders) {
  ASSERT_EQ(fewest_values(), 10U) << "2 * 5! * 5! / 10! is below 0.01, 2 * 4! * 5! / 9! is not";
  std::vector<double> values = {1, 2, 3, 4, 101, 102, 103, 104, 105};
  EXPECT_TRUE(change_points(values).empty());
  values.insert(values.begin(), 5);
  ChangePointOptions options;
  options.permutations = 9999;  // a thousand would let chance decide between 0.008 and 0.01
  EXPECT_EQ(positions(change_points(values, options)), std::vector<size_t>{5});
}

TEST(ChangePoints, has_nothing_to_split_in_a_short_series) {
  EXPECT_TRUE(change_points({}).empty());
  EXPECT_TRUE(change_points(std::vector<double>{1, 2, 9, 9, 9}).empty());
}

TEST(ChangePoints, refuses_what_is_not_finite_and_options_that_find_nothing) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW((void)change_points(std::vector<double>{1, nan}), std::logic_error);
  EXPECT_THROW((void)change_points({}, {0.001, 99, 0, 3}), std::logic_error);
  EXPECT_THROW((void)change_points({}, {0, 99, 0, 3}), std::logic_error);
  EXPECT_THROW((void)change_points({}, {0.05, 99, 0, 1}), std::logic_error);
}

}  // namespace
}  // namespace noisemark::reports
