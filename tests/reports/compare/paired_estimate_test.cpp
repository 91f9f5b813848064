#include "reports/compare/paired_estimate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>

#include "reports/random_index.h"
#include "tests/reports/compare/literature.h"

namespace noisemark::reports {
namespace {

/// As the definition has it: each resample is drawn, and estimated, by itself.
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
      differences.push_back(i % 3 == 0 ? std::round(10 * wave) / 10 : wave);  // with ties
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
}  // namespace noisemark::reports
