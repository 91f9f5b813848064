#include "reports/compare/inference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "reports/base/statistics.h"
#include "tests/reports/compare/literature.h"

namespace noisemark::reports {
namespace {

/// Computes the interval as it is defined: each resample is drawn, and estimated, by itself.
Interval drawn_one_by_one(const std::vector<double>& differences, const BootstrapOptions& options) {
  std::mt19937_64 generator(options.seed);
  std::vector<double> estimates;
  for (int64_t i = 0; i < options.resamples; ++i) {
    std::vector<double> resample;
    for (size_t j = 0; j < differences.size(); ++j) {
      resample.push_back(differences[index_below(generator, differences.size())]);
    }
    estimates.push_back(hodges_lehmann(resample));
  }
  const double tail = (1 - options.confidence) / 2;
  return {quantile(estimates, tail), quantile(estimates, 1 - tail)};
}

TEST(PairedEstimate, is_that_of_hollander_and_wolfe) {
  EXPECT_NEAR(hodges_lehmann(test::depression_change()), 0.46, 1e-12);
}

TEST(PairedEstimate, of_one_difference_is_the_difference) {
  EXPECT_EQ(hodges_lehmann(std::vector<double>{-3}), -3);
}

TEST(PairedEstimate, of_an_even_number_of_averages_lies_between_the_middle_two) {
  // Averages of 0, 1, 10: 0, 0.5, 1, 5, 5.5, 10.
  EXPECT_EQ(hodges_lehmann(std::vector<double>{10, 0, 1}), 3);
}

TEST(PairedEstimate, is_moved_little_by_one_wild_round) {
  const std::vector<double> calm = {1, 1.1, 0.9, 1.05, 0.95, 1, 1.02, 0.98};
  std::vector<double> wild = calm;
  wild[0] = 1000;
  EXPECT_NEAR(hodges_lehmann(wild), hodges_lehmann(calm), 0.05);
}

TEST(PairedEstimate, log_ratios_are_those_of_the_candidate_to_the_base) {
  const auto ratios = log_ratios(std::vector<double>{2, 4}, std::vector<double>{4, 2});
  ASSERT_EQ(ratios.size(), 2U);
  EXPECT_NEAR(ratios[0], std::log(2.0), 1e-15);
  EXPECT_NEAR(ratios[1], -std::log(2.0), 1e-15);
}

TEST(PairedEstimate, interval_holds_the_estimate_and_narrows_with_less_confidence) {
  const std::vector<double>& d = test::kMaize;
  const Interval wide = bootstrap_hodges_lehmann(d, {2000, 1, 0.99});
  const Interval narrow = bootstrap_hodges_lehmann(d, {2000, 1, 0.8});
  const double estimate = hodges_lehmann(d);
  EXPECT_LT(wide.low, narrow.low);
  EXPECT_LT(narrow.low, estimate);
  EXPECT_LT(estimate, narrow.high);
  EXPECT_LT(narrow.high, wide.high);
}

TEST(PairedEstimate, interval_repeats_with_the_seed_and_only_with_it) {
  const BootstrapOptions first{500, 1, 0.95};
  const BootstrapOptions second{500, 2, 0.95};
  const Interval a = bootstrap_hodges_lehmann(test::kMaize, first);
  const Interval b = bootstrap_hodges_lehmann(test::kMaize, first);
  const Interval c = bootstrap_hodges_lehmann(test::kMaize, second);
  EXPECT_EQ(a.low, b.low);
  EXPECT_EQ(a.high, b.high);
  EXPECT_TRUE(a.low != c.low || a.high != c.high);
}

TEST(PairedEstimate, intervals_are_bit_for_bit_those_of_resamples_drawn_and_estimated_one_by_one) {
  for (const size_t count : {1, 2, 3, 4, 9, 30, 100}) {
    std::vector<double> differences;
    for (size_t i = 0; i < count; ++i) {
      const double wave = std::sin(37.0 * static_cast<double>(i));
      differences.push_back(i % 3 == 0 ? std::round(10 * wave) / 10 : wave);  // some are ties
    }
    const BootstrapEstimates drawn(differences, 200, 5);
    for (const double confidence : {0.95, 0.9}) {
      const Interval expected = drawn_one_by_one(differences, {200, 5, confidence});
      EXPECT_EQ(drawn.interval(confidence).low, expected.low) << count;
      EXPECT_EQ(drawn.interval(confidence).high, expected.high) << count;
    }
  }
}

TEST(PairedEstimate, refuses_what_has_no_answer) {
  const std::vector<double> none;
  const std::vector<double> one = {1};
  const std::vector<double> zero = {0};
  const std::vector<double> nan = {std::numeric_limits<double>::quiet_NaN()};
  EXPECT_THROW((void)hodges_lehmann(none), std::logic_error);
  EXPECT_THROW((void)hodges_lehmann(nan), std::logic_error);
  EXPECT_THROW((void)bootstrap_hodges_lehmann(none), std::logic_error);
  EXPECT_THROW((void)bootstrap_hodges_lehmann(one, {0, 0, 0.95}), std::logic_error);
  EXPECT_THROW((void)log_ratios(none, none), std::logic_error);
  EXPECT_THROW((void)log_ratios(one, none), std::logic_error);
  EXPECT_THROW((void)log_ratios(one, zero), std::logic_error);
  EXPECT_THROW((void)log_ratios(nan, one), std::logic_error);
}

}  // namespace

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
