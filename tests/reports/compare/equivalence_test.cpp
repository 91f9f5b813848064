#include "reports/compare/equivalence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "tests/reports/compare/literature.h"

namespace noisemark::reports {
namespace {

TEST(Equivalence, uses_students_own_figures) {
  const Equivalence e = paired_equivalence(test::kSleep, 5);
  EXPECT_NEAR(e.difference, 1.58, 1e-12);
  // Student prints the deviation with n in the denominator, 1.17; with n - 1 it is 1.2300.
  EXPECT_NEAR(e.standard_error, 1.2300 / std::sqrt(10.0), 5e-5);
  EXPECT_EQ(e.degrees, 9);
  EXPECT_NEAR(e.difference / e.standard_error, 4.0621, 5e-5);
  EXPECT_EQ(e.p(), e.p_upper);
  EXPECT_LT(e.p(), 1e-4);
}

TEST(Equivalence, is_proven_exactly_when_the_interval_lies_within_the_margin) {
  const std::vector<double> d = {-0.4, 0.3, 0.1, -0.2, 0.25, 0.05, -0.1, 0.15};
  int proven = 0;
  for (double margin = 0.01; margin < 0.5; margin += 0.01) {
    const Equivalence e = paired_equivalence(d, margin, 0.05);
    const bool within = -margin < e.interval.low && e.interval.high < margin;
    EXPECT_EQ(e.p() <= 0.05, within) << margin;
    proven += within ? 1 : 0;
  }
  EXPECT_GT(proven, 10);
  EXPECT_LT(proven, 40);
}

TEST(Equivalence, welch_counts_degrees_by_satterthwaite) {
  // Variances 1 and 4 over 3 values each: (1/3 + 4/3)^2 / ((1/3)^2 / 2 + (4/3)^2 / 2) = 50/17.
  const Equivalence e =
      welch_equivalence(std::vector<double>{1, 2, 3}, std::vector<double>{2, 4, 6}, 10);
  EXPECT_NEAR(e.degrees, 50.0 / 17, 1e-12);
  EXPECT_NEAR(e.difference, 2, 1e-15);
}

TEST(Equivalence, equal_values_are_proven_by_their_difference_alone) {
  const std::vector<double> same = {0.5, 0.5, 0.5};
  EXPECT_EQ(paired_equivalence(same, 0.6).p(), 0);
  EXPECT_EQ(paired_equivalence(same, 0.5).p(), 1);
  EXPECT_EQ(paired_equivalence(same, 0.4).p(), 1);
  EXPECT_EQ(welch_equivalence(same, same, 0.1).p(), 0);
}

TEST(Equivalence, refuses_what_has_no_answer) {
  const std::vector<double> one = {1};
  const std::vector<double> two = {1, 2};
  EXPECT_THROW((void)paired_equivalence(one, 1), std::logic_error);
  EXPECT_THROW((void)paired_equivalence(two, 0), std::logic_error);
  EXPECT_THROW((void)paired_equivalence(two, 1, 0.5), std::logic_error);
  EXPECT_THROW((void)welch_equivalence(one, two, 1), std::logic_error);
  EXPECT_THROW((void)welch_equivalence(two, two, 1, 0), std::logic_error);
}

TEST(Equivalence, of_welch_takes_a_variance_that_is_known_beforehand) {
  // Without spread of their own the samples differ as a normal distribution of that variance does:
  // its 95 % point is 1.6449 standard deviations away.
  const std::vector<double> same(8, 2.0);
  const Equivalence known = welch_equivalence(same, same, 0.03, 0.05, 0.01 * 0.01);
  EXPECT_NEAR(known.interval.high, 0.016449, 1e-6);
  EXPECT_NEAR(known.p(), 0.00135, 1e-5) << "three standard deviations";
  const std::vector<double> base = {1, 2, 3, 4};
  const std::vector<double> candidate = {2, 3, 4, 6};
  const Equivalence plain = welch_equivalence(base, candidate, 1);
  const Equivalence wider = welch_equivalence(base, candidate, 1, 0.05, 0.5);
  EXPECT_NEAR(wider.standard_error * wider.standard_error,
              plain.standard_error * plain.standard_error + 0.5, 1e-12);
  EXPECT_GT(wider.degrees, plain.degrees);
}

}  // namespace
}  // namespace noisemark::reports
