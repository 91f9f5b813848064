#include "reports/quality/difference_test.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

namespace noisemark::reports {
namespace {

using Values = std::vector<double>;

TEST(Correlation, is_that_of_a_textbook) {
  // Anscombe (1973), first set: r = 0.816 in the paper, sums of squares 110, 41.2727 and 55.01.
  const Values x = {10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5};
  const Values y = {8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68};
  EXPECT_NEAR(*correlation(x, y), 55.01 / std::sqrt(110 * 41.272690909090905), 1e-12);
  EXPECT_NEAR(*correlation(x, y), 0.816, 5e-4);
}

TEST(Correlation, of_two_pairs_or_of_no_spread_says_nothing) {
  EXPECT_EQ(correlation(Values{1, 2}, Values{5, 7}), std::nullopt);
  EXPECT_EQ(correlation(Values{1, 1, 1}, Values{5, 7, 6}), std::nullopt);
  EXPECT_NEAR(*correlation(Values{1, 2, 3}, Values{3, 2, 1}), -1, 1e-15);
  EXPECT_THROW((void)correlation(Values{1, 2, 3}, Values{1, 2}), std::logic_error);
}

TEST(DifferenceTest, is_chosen_by_the_rule_that_was_declared) {
  EXPECT_EQ(choose_design(0.9), TestDesign::kPaired);
  EXPECT_EQ(choose_design(0.500001), TestDesign::kPaired);
  EXPECT_EQ(choose_design(0.5), TestDesign::kWelch);
  EXPECT_EQ(choose_design(0.0), TestDesign::kWelch);
  EXPECT_EQ(choose_design(-0.1), TestDesign::kPaired);
  EXPECT_EQ(choose_design(std::nullopt), TestDesign::kPaired);
}

TEST(DifferenceTest, pairs_seeds_that_move_both_sides) {
  // Differences 0.01, 0.02, 0.03: mean 0.02, deviation 0.01, so t_2 = 2.9200 (5 %, any table).
  const SeedValues values = {{1, 2, 4}, {1.01, 2.02, 4.03}};
  const DifferenceTest test = test_difference(values, 0.05, 0.05);
  EXPECT_EQ(test.design, TestDesign::kPaired);
  EXPECT_GT(*test.correlation, 0.999);
  EXPECT_EQ(test.equivalence.degrees, 2);
  EXPECT_NEAR(test.equivalence.difference, 0.02, 1e-15);
  EXPECT_NEAR(test.equivalence.interval.high, 0.02 + 2.9200 * 0.01 / std::sqrt(3.0), 1e-6);
  EXPECT_NEAR(test.variance, 1e-4, 1e-15);
  EXPECT_NEAR(test.p_worse + test.equivalence.p_upper, 1, 1e-15);
  EXPECT_NEAR(test.p_better + test.equivalence.p_lower, 1, 1e-15);
}

TEST(DifferenceTest, takes_seeds_apart_that_tell_nothing_about_each_other) {
  const SeedValues values = {{1, 2, 3, 4}, {2, 1, 1, 2}};  // correlation 0
  const DifferenceTest test = test_difference(values, 1, 0.05);
  EXPECT_EQ(test.design, TestDesign::kWelch);
  EXPECT_NEAR(*test.correlation, 0, 1e-15);
  EXPECT_NEAR(test.variance, 5.0 / 3 + 1.0 / 3, 1e-12);
  EXPECT_GT(test.equivalence.degrees, 3);
}

TEST(DifferenceTest, refuses_what_has_no_answer) {
  EXPECT_THROW((void)test_difference({{1, 2}, {1}}, 0.1, 0.05), std::logic_error);
  EXPECT_THROW((void)test_difference({{1}, {1}}, 0.1, 0.05), std::logic_error);
  EXPECT_THROW((void)test_difference({{1, 2}, {1, 3}}, 0, 0.05), std::logic_error);
}

}  // namespace
}  // namespace noisemark::reports
