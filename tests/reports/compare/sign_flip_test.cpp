#include "reports/compare/sign_flip.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "tests/reports/compare/literature.h"

namespace noisemark::reports {
namespace {

TEST(SignFlip, counts_what_fisher_counted_for_darwins_maize) {
  const SignFlip found = sign_flip_test(test::kMaize, Alternative::kTwoSided);
  EXPECT_EQ(found.mean, 314.0 / 15);
  EXPECT_EQ(found.p, 2 * 863.0 / 32768);
  EXPECT_TRUE(found.exact);
}

TEST(SignFlip, sums_that_differ_by_rounding_alone_are_equal) {
  // 0.1 + 0.2 - 0.3 is 0 but for rounding, and so is its mirror image; three sums are above.
  const std::vector<double> d = {0.1, 0.2, -0.3};
  EXPECT_EQ(sign_flip_test(d, Alternative::kGreater).p, 5.0 / 8);
  EXPECT_EQ(sign_flip_test(d, Alternative::kLess).p, 5.0 / 8);
  EXPECT_EQ(sign_flip_test(d, Alternative::kTwoSided).p, 1);
}

TEST(SignFlip, agreeing_signs_reach_the_smallest_p) {
  const std::vector<double> d = {3, 1, 2, 5, 4};
  EXPECT_EQ(sign_flip_test(d, Alternative::kGreater).p, 1.0 / 32);
  EXPECT_EQ(sign_flip_test(d, Alternative::kLess).p, 1);
}

TEST(SignFlip, drawn_signs_come_near_the_normal_limit) {
  // 40 differences of magnitude 1, of which 26 are positive: the count is binomial, and
  // P(X >= 26) = 0.0403452.
  std::vector<double> d(40, 1);
  for (size_t i = 0; i < 14; ++i) d[i] = -1;
  const SignFlip found = sign_flip_test(d, Alternative::kGreater, {20000, 7});
  EXPECT_FALSE(found.exact);
  // Four standard errors of a share of 20,000 draws.
  EXPECT_NEAR(found.p, 0.0403452, 4 * std::sqrt(0.0403452 * 0.9596548 / 20000));
}

TEST(SignFlip, drawn_p_is_never_zero_and_repeats_with_the_seed) {
  const std::vector<double> d(60, 1);
  EXPECT_EQ(sign_flip_test(d, Alternative::kGreater, {99, 1}).p, 0.01);
  std::vector<double> mixed = d;
  for (size_t i = 0; i < 25; ++i) mixed[i] = -1;
  const double first = sign_flip_test(mixed, Alternative::kGreater, {1000, 1}).p;
  EXPECT_EQ(sign_flip_test(mixed, Alternative::kGreater, {1000, 1}).p, first);
  EXPECT_NE(sign_flip_test(mixed, Alternative::kGreater, {1000, 2}).p, first);
}

TEST(SignFlip, refuses_what_has_no_answer) {
  const std::vector<double> none;
  const std::vector<double> one = {1};
  const std::vector<double> bad = {std::numeric_limits<double>::quiet_NaN()};
  EXPECT_THROW((void)sign_flip_test(none, Alternative::kLess), std::logic_error);
  EXPECT_THROW((void)sign_flip_test(bad, Alternative::kLess), std::logic_error);
  EXPECT_THROW((void)sign_flip_test(one, Alternative::kLess, {0, 0}), std::logic_error);
}

}  // namespace
}  // namespace noisemark::reports
