#include "reports/compare/repetitions.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "reports/compare/signed_rank.h"

namespace noisemark::reports {
namespace {

TEST(Repetitions, smallest_p_is_what_the_test_gives_when_all_signs_agree) {
  std::vector<double> d;
  for (int pairs = 1; pairs <= 12; ++pairs) {
    d.push_back(pairs);
    EXPECT_EQ(wilcoxon_signed_rank(d, Alternative::kGreater).p, smallest_p(pairs));
  }
}

TEST(Repetitions, fewest_pairs_reach_alpha_and_one_fewer_does_not) {
  EXPECT_EQ(fewest_pairs(0.05, 1), 5);
  EXPECT_EQ(fewest_pairs(0.025, 6), 8);
  EXPECT_EQ(fewest_pairs(0.025, 25), 10);
  EXPECT_EQ(fewest_pairs(0.5, 1), 1);
  for (int64_t tests = 1; tests < 40; ++tests) {
    const int64_t pairs = fewest_pairs(0.05, tests);
    EXPECT_LE(smallest_p(pairs) * static_cast<double>(tests), 0.05);
    EXPECT_GT(smallest_p(pairs - 1) * static_cast<double>(tests), 0.05);
  }
}

TEST(Repetitions, pairs_to_detect_are_those_of_power_tables) {
  // Cohen (1988), table 2.4.1 adapted to paired differences, as every power program prints them.
  EXPECT_EQ(pairs_to_detect(1, 0.5, {0.05, 0.8}), 27);
  EXPECT_EQ(pairs_to_detect(1, 0.5, {0.025, 0.8}), 34);
  EXPECT_EQ(pairs_to_detect(1, 0.8, {0.025, 0.8}), 15);
  EXPECT_EQ(pairs_to_detect(1, 0.2, {0.025, 0.8}), 199);
}

TEST(Repetitions, pairs_to_detect_suffice_and_one_fewer_does_not) {
  for (const double difference : {0.05, 0.3, 0.7, 1.5, 4.0}) {
    const int64_t pairs = pairs_to_detect(1, difference);
    EXPECT_LE(smallest_detectable(1, pairs), difference);
    if (pairs == 2) continue;
    EXPECT_GT(smallest_detectable(1, pairs - 1), difference);
  }
}

TEST(Repetitions, what_is_detectable_is_in_the_unit_of_the_deviation) {
  EXPECT_NEAR(smallest_detectable(3, 10), 3 * smallest_detectable(1, 10), 1e-12);
  EXPECT_EQ(smallest_detectable(0, 10), 0);
  EXPECT_EQ(pairs_to_detect(0, 0.1), 2);
}

TEST(Repetitions, proving_equality_takes_more_than_finding_a_difference) {
  EXPECT_EQ(pairs_to_prove_equal(1, 0.5, {0.05, 0.8}), pairs_to_detect(1, 0.5, {0.05, 0.9}));
  EXPECT_GT(pairs_to_prove_equal(1, 0.5), pairs_to_detect(1, 0.5));
}

TEST(Repetitions, refuses_what_has_no_answer) {
  EXPECT_THROW((void)smallest_p(-1), std::logic_error);
  EXPECT_THROW((void)fewest_pairs(0, 1), std::logic_error);
  EXPECT_THROW((void)fewest_pairs(0.05, 0), std::logic_error);
  EXPECT_THROW((void)smallest_detectable(1, 1), std::logic_error);
  EXPECT_THROW((void)smallest_detectable(-1, 5), std::logic_error);
  EXPECT_THROW((void)smallest_detectable(1, 5, {0.05, 0.04}), std::logic_error);
  EXPECT_THROW((void)pairs_to_detect(1, 0), std::logic_error);
  EXPECT_THROW((void)pairs_to_detect(1, 1e-6), std::logic_error);
}

}  // namespace
}  // namespace noisemark::reports
