#include "reports/seeds/difference_test.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

namespace noisemark::reports {
namespace {

/// The standard error of a log-ratio in a 2x2 crossover of `subjects` with so much variation within
/// them, as bioequivalence studies plan it.
EstimatedDifference crossover(double variation, double subjects) {
  return {std::sqrt(2 * std::log1p(variation * variation) / subjects), subjects - 2};
}

TEST(EquivalencePower, is_that_of_the_tables_of_bioequivalence) {
  // Exact powers at a true ratio of 0.95 within 80 to 125 %, as sampleN.TOST of the R package
  // PowerTOST prints them (its vignette «ABE»), by Owen's Q.
  const double difference = std::log(0.95);
  const double margin = std::log(1.25);
  EXPECT_NEAR(equivalence_power(crossover(0.30, 40), difference, margin, 0.05), 0.815845, 5e-7);
  EXPECT_NEAR(equivalence_power(crossover(0.20, 20), difference, margin, 0.05), 0.834680, 5e-7);
  EXPECT_NEAR(equivalence_power(crossover(0.25, 28), difference, margin, 0.05), 0.807439, 5e-7);
}

TEST(EquivalencePower, is_alpha_at_the_margin_where_the_other_test_never_fails) {
  for (const double degrees : {2.0, 4.0, 7.3, 50.0}) {
    EXPECT_NEAR(equivalence_power({0.0001, degrees}, 1, 1, 0.05), 0.05, 1e-9) << degrees;
    EXPECT_NEAR(equivalence_power({0.0001, degrees}, -1, 1, 0.01), 0.01, 1e-9) << degrees;
  }
}

TEST(EquivalencePower, never_exceeds_alpha_at_the_margin) {
  for (const double error : {0.01, 0.1, 0.3, 1.0, 10.0}) {
    for (const double degrees : {1.0, 2.0, 8.0, 1000.0}) {
      const double power = equivalence_power({error, degrees}, 1, 1, 0.05);
      EXPECT_LE(power, 0.05 + 1e-9) << error << " " << degrees;
      EXPECT_GE(power, 0) << error << " " << degrees;
    }
  }
}

TEST(EquivalencePower, without_an_error_is_certain) {
  EXPECT_EQ(equivalence_power({0, 2}, 0.9, 1, 0.05), 1);
  EXPECT_EQ(equivalence_power({0, 2}, 1, 1, 0.05), 0);
}

TEST(DetectableDifference, is_that_of_pairs_for_their_degrees) {
  for (const int64_t pairs : {2, 3, 5, 20}) {
    const auto count = static_cast<double>(pairs);
    EXPECT_NEAR(detectable_difference({0.7 / std::sqrt(count), count - 1}),
                smallest_detectable(0.7, pairs), 1e-12);
  }
  EXPECT_EQ(detectable_difference({0, 2}), 0);
}

TEST(DetectableDifference, has_an_answer_for_two_seeds_and_many_tests) {
  // One degree of freedom at 0.05 / 20: t = 127.3, where series of the noncentral t are longest.
  const double found = detectable_difference({1, 1}, {0.0025, 0.8});
  EXPECT_GT(found, 127);
  EXPECT_LT(found, 400);
}

TEST(SeedsToDecide, suffice_and_one_fewer_does_not) {
  for (const TestDesign design : {TestDesign::kPaired, TestDesign::kWelch}) {
    for (const double difference : {0.0, 0.004, -0.006}) {
      const SeedOutlook outlook = {design, 1e-4, difference, 0.01};
      const int64_t seeds = seeds_to_decide(outlook).value();
      const auto power_of = [&](int64_t count) {
        const auto n = static_cast<double>(count);
        const double sides = design == TestDesign::kPaired ? 1 : 2;
        return equivalence_power({std::sqrt(1e-4 / n), sides * (n - 1)}, difference, 0.01, 0.05);
      };
      EXPECT_GE(power_of(seeds), 0.8);
      EXPECT_LT(power_of(seeds - 1), 0.8);
    }
  }
}

TEST(SeedsToDecide, to_find_a_difference_are_those_of_a_one_sided_test) {
  // 0.03 is 0.02 beyond the margin: one deviation of 0.02.
  EXPECT_EQ(seeds_to_decide({TestDesign::kPaired, 4e-4, 0.03, 0.01}), pairs_to_detect(1, 1));
}

TEST(SeedsToDecide, are_none_at_the_margin) {
  EXPECT_EQ(seeds_to_decide({TestDesign::kPaired, 1e-4, 0.01, 0.01}), std::nullopt);
  EXPECT_EQ(seeds_to_decide({TestDesign::kPaired, 1, 0.0099, 0.01}), std::nullopt);
  EXPECT_EQ(seeds_to_decide({TestDesign::kPaired, 0, 0, 0.01}), 2);
}

TEST(Power, refuses_what_has_no_answer) {
  EXPECT_THROW((void)equivalence_power({-1, 2}, 0, 1, 0.05), std::logic_error);
  EXPECT_THROW((void)equivalence_power({1, 0}, 0, 1, 0.05), std::logic_error);
  EXPECT_THROW((void)equivalence_power({1, 2}, 0, 0, 0.05), std::logic_error);
  EXPECT_THROW((void)equivalence_power({1, 2}, 0, 1, 0.5), std::logic_error);
  EXPECT_THROW((void)detectable_difference({1, 2}, {0.9, 0.8}), std::logic_error);
  EXPECT_THROW((void)seeds_to_decide({TestDesign::kPaired, -1, 0, 1}), std::logic_error);
}

}  // namespace

namespace {

TEST(Correlation, is_that_of_a_textbook) {
  // Anscombe (1973), first set: r = 0.816 in the paper, sums of squares 110, 41.2727 and 55.01.
  const std::vector<double> x = {10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5};
  const std::vector<double> y = {8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68};
  EXPECT_NEAR(*correlation(x, y), 55.01 / std::sqrt(110 * 41.272690909090905), 1e-12);
  EXPECT_NEAR(*correlation(x, y), 0.816, 5e-4);
}

TEST(Correlation, of_two_pairs_or_of_no_spread_says_nothing) {
  EXPECT_EQ(correlation(std::vector<double>{1, 2}, std::vector<double>{5, 7}), std::nullopt);
  EXPECT_EQ(correlation(std::vector<double>{1, 1, 1}, std::vector<double>{5, 7, 6}), std::nullopt);
  EXPECT_NEAR(*correlation(std::vector<double>{1, 2, 3}, std::vector<double>{3, 2, 1}), -1, 1e-15);
  EXPECT_THROW((void)correlation(std::vector<double>{1, 2, 3}, std::vector<double>{1, 2}),
               std::logic_error);
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
