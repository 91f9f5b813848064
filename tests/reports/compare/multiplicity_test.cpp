#include "reports/compare/multiplicity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

namespace noisemark::reports {
namespace {

void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  // One product and one quotient.
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-15) << i;
}

TEST(Multiplicity, holm_multiplies_by_the_hypotheses_left) {
  expect_near(holm(std::vector<double>{0.01, 0.04, 0.03, 0.005}), {0.03, 0.06, 0.06, 0.02});
}

// The 15 p-values of Benjamini and Hochberg (1995), section 4.1: Bonferroni's and Holm's procedures
// reject three at 0.05, theirs four.
const std::vector<double> kInfarction = {0.0001, 0.0004, 0.0019, 0.0095, 0.0201,
                                         0.0278, 0.0298, 0.0344, 0.0459, 0.3240,
                                         0.4262, 0.5719, 0.6528, 0.7590, 1.0};

int rejected(const std::vector<double>& adjusted) {
  return static_cast<int>(
      std::count_if(adjusted.begin(), adjusted.end(), [](double p) { return p <= 0.05; }));
}

TEST(Multiplicity, rejects_as_many_as_benjamini_and_hochberg_print) {
  EXPECT_EQ(rejected(holm(kInfarction)), 3);
  EXPECT_EQ(rejected(benjamini_hochberg(kInfarction)), 4);
}

TEST(Multiplicity, order_does_not_matter_and_is_kept) {
  std::vector<double> reversed(kInfarction.rbegin(), kInfarction.rend());
  std::vector<double> found = holm(reversed);
  std::reverse(found.begin(), found.end());
  expect_near(found, holm(kInfarction));
  found = benjamini_hochberg(reversed);
  std::reverse(found.begin(), found.end());
  expect_near(found, benjamini_hochberg(kInfarction));
}

TEST(Multiplicity, one_test_is_left_as_it_is_and_none_is_none) {
  expect_near(holm(std::vector<double>{0.03}), {0.03});
  expect_near(benjamini_hochberg(std::vector<double>{0.03}), {0.03});
  EXPECT_TRUE(holm({}).empty());
  EXPECT_TRUE(benjamini_hochberg({}).empty());
}

TEST(Multiplicity, adjusted_values_stay_probabilities) {
  expect_near(holm(std::vector<double>{0.9, 0.8}), {1, 1});
  expect_near(benjamini_hochberg(std::vector<double>{0.9, 0.8}), {0.9, 0.9});
}

TEST(Multiplicity, refuses_what_is_no_probability) {
  EXPECT_THROW((void)holm(std::vector<double>{1.5}), std::logic_error);
  EXPECT_THROW((void)benjamini_hochberg(std::vector<double>{-0.1}), std::logic_error);
}

}  // namespace
}  // namespace noisemark::reports
