#include "reports/compare/signed_rank.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/reports/compare/literature.h"

namespace noisemark::reports {
namespace {

/// 1, 2, ... n with signs such that the negative ones add up to `negative`.
std::vector<double> ranks(int n, int negative) {
  std::vector<double> values;
  for (int rank = n; rank >= 1; --rank) {
    const bool taken = rank <= negative;
    negative -= taken ? rank : 0;
    values.push_back(taken ? -rank : rank);
  }
  return values;
}

TEST(SignedRank, is_that_of_hollander_and_wolfe) {
  const SignedRank found = wilcoxon_signed_rank(test::depression_change(), Alternative::kGreater);
  EXPECT_EQ(found.statistic, 40);
  EXPECT_EQ(found.p, 10.0 / 512);
  EXPECT_TRUE(found.exact);
}

TEST(SignedRank, leaves_out_the_zero_among_students_sleepers) {
  const SignedRank found = wilcoxon_signed_rank(test::kSleep, Alternative::kTwoSided);
  EXPECT_EQ(found.n, 9);
  EXPECT_EQ(found.statistic, 45);
  EXPECT_EQ(found.p, 2.0 / 512);
}

TEST(SignedRank, has_the_critical_values_of_every_printed_table) {
  // n, and the largest sum of the lesser signs that is significant at 2.5 % one-sided.
  const std::vector<std::pair<int, int>> table = {
      {6, 0},   {7, 2},   {8, 3},   {9, 5},   {10, 8},  {11, 10}, {12, 13}, {13, 17},
      {14, 21}, {15, 25}, {16, 29}, {17, 34}, {18, 40}, {19, 46}, {20, 52}, {25, 89}};
  for (const auto& [n, critical] : table) {
    EXPECT_LE(wilcoxon_signed_rank(ranks(n, critical), Alternative::kGreater).p, 0.025) << n;
    EXPECT_GT(wilcoxon_signed_rank(ranks(n, critical + 1), Alternative::kGreater).p, 0.025) << n;
  }
}

TEST(SignedRank, alternatives_are_two_tails_of_one_distribution) {
  const std::vector<double> d = ranks(12, 7);
  const double greater = wilcoxon_signed_rank(d, Alternative::kGreater).p;
  const double less = wilcoxon_signed_rank(d, Alternative::kLess).p;
  std::vector<double> mirrored;
  for (const double value : d) mirrored.push_back(-value);
  EXPECT_EQ(wilcoxon_signed_rank(mirrored, Alternative::kLess).p, greater);
  EXPECT_EQ(wilcoxon_signed_rank(d, Alternative::kTwoSided).p, 2 * greater);
  EXPECT_GT(greater + less, 1) << "both tails hold the value at hand";
}

TEST(SignedRank, counts_ties_exactly) {
  // Ranks 1.5, 1.5, 3; sums over the 8 signs: 0, 1.5, 1.5, 3, 3, 4.5, 4.5, 6.
  const SignedRank found =
      wilcoxon_signed_rank(std::vector<double>{-2, 2, 5}, Alternative::kGreater);
  EXPECT_EQ(found.statistic, 4.5);
  EXPECT_EQ(found.p, 3.0 / 8);
}

TEST(SignedRank, approximation_joins_the_exact_count) {
  // 50 differences are counted and 51 approximated. The next one, in the middle of the ranks and of
  // either sign, changes p by far less than the tolerance.
  std::vector<double> d;
  for (int i = 1; i <= 50; ++i) d.push_back(i % 3 == 0 ? -i : i);
  const SignedRank exact = wilcoxon_signed_rank(d, Alternative::kGreater);
  d.push_back(0.5);
  const SignedRank normal = wilcoxon_signed_rank(d, Alternative::kGreater);
  EXPECT_TRUE(exact.exact);
  EXPECT_FALSE(normal.exact);
  EXPECT_NEAR(normal.p / exact.p, 1, 0.1);
}

TEST(SignedRank, without_differences_proves_nothing) {
  EXPECT_EQ(wilcoxon_signed_rank(std::vector<double>{}, Alternative::kGreater).p, 1);
  EXPECT_EQ(wilcoxon_signed_rank(std::vector<double>{0, 0}, Alternative::kTwoSided).p, 1);
}

TEST(SignedRank, refuses_what_is_no_number) {
  const std::vector<double> bad = {1, std::numeric_limits<double>::infinity()};
  EXPECT_THROW((void)wilcoxon_signed_rank(bad, Alternative::kLess), std::logic_error);
}

}  // namespace
}  // namespace noisemark::reports
