#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reports/base/statistics.h"
#include "reports/result/result.h"

/// The difference of one of two builds from the other, from rounds that ran both. Every function
/// throws std::logic_error for an empty or non-finite sample.
namespace noisemark::reports {

/// log(candidate / base) of each round. Throws std::logic_error for unequal lengths and for figures
/// that are not positive.
[[nodiscard]] std::vector<double> log_ratios(std::span<const double> base,
                                             std::span<const double> candidate);

/// Median of the averages of all pairs of differences, each with itself too (Hodges and Lehmann
/// 1963): the estimate that belongs to the signed-rank test.
[[nodiscard]] double hodges_lehmann(std::span<const double> differences);

/// Hodges-Lehmann estimates of resampled rounds (Efron 1979), drawn once for intervals of any
/// confidence. Bit for bit the same on every platform for the same seed.
class BootstrapEstimates {
 public:
  BootstrapEstimates(std::span<const double> differences, int64_t resamples, uint64_t seed);

  /// Percentile interval.
  [[nodiscard]] Interval interval(double confidence) const;

 private:
  std::vector<double> estimates_;
};

/// One interval of BootstrapEstimates.
[[nodiscard]] Interval bootstrap_hodges_lehmann(std::span<const double> differences,
                                                const BootstrapOptions& options = {});

/// The claim about the differences when their test is significant.
enum class Alternative { kTwoSided, kGreater, kLess };

struct SignedRank {
  double statistic = 0;  ///< sum of the ranks of the positive differences
  double p = 1;
  int64_t n = 0;      ///< differences that are not zero
  bool exact = true;  ///< is false for the normal approximation
};

/// Wilcoxon's signed-rank test (1945) of differences around zero. Zeros are left out, as Wilcoxon
/// did; equal magnitudes share their mean rank. Up to 50 differences the distribution over all
/// 2^n signs of the ranks at hand is counted, ties included (Streitberg and Röhmel 1986); beyond,
/// the normal approximation with corrections for ties and continuity. Two-sided: twice the smaller
/// tail, at most 1. Without differences that are not zero p is 1. Throws std::logic_error for a
/// value that is not finite.
[[nodiscard]] SignedRank wilcoxon_signed_rank(std::span<const double> differences,
                                              Alternative alternative);

/// Two one-sided t tests (Schuirmann 1987): is a mean difference proven to lie within ±margin?
struct Equivalence {
  double difference = 0;
  double standard_error = 0;
  double degrees = 0;  ///< degrees of freedom
  double p_lower = 1;  ///< p of the null hypothesis "the difference is at most -margin"
  double p_upper = 1;  ///< p of the null hypothesis "the difference is at least +margin"
  Interval interval;   ///< 1 - 2 alpha confidence interval; equivalent iff within the margin

  /// The difference is proven when this is at most alpha.
  [[nodiscard]] double p() const { return p_lower > p_upper ? p_lower : p_upper; }
};

/// Tests differences of pairs, at least two. Differences that are all equal have no spread: their
/// p-values are 0 or 1. Throws std::logic_error for too few or non-finite values, a margin that is
/// not positive, and an alpha outside (0, 0.5).
[[nodiscard]] Equivalence paired_equivalence(std::span<const double> differences, double margin,
                                             double alpha = kAlpha);

/// Tests candidate - base in two independent samples of unequal variances (Welch 1947, with
/// Satterthwaite's degrees of freedom); at least two values each. `known_variance` is added to that
/// of the difference, as something known beforehand. Throws likewise.
[[nodiscard]] Equivalence welch_equivalence(std::span<const double> base,
                                            std::span<const double> candidate, double margin,
                                            double alpha = kAlpha, double known_variance = 0);

// Adjusted p-values of several tests at once, in the order given: compare each with alpha. Both
// throw std::logic_error for a p outside [0, 1].

/// Holm (1979): the chance of any false alarm among them stays at alpha, whatever their dependence.
[[nodiscard]] std::vector<double> holm(std::span<const double> p);

/// Benjamini and Hochberg (1995): the expected share of false alarms among the alarms stays at
/// alpha, for tests that are independent or positively dependent.
[[nodiscard]] std::vector<double> benjamini_hochberg(std::span<const double> p);

/// Interval of a proportion of which `hits` in `trials` were seen (Clopper and Pearson 1934):
/// covers at least `confidence`, whatever the proportion. Throws std::logic_error unless 0 <= hits
/// <= trials, trials >= 1 and confidence in (0, 1).
[[nodiscard]] Interval clopper_pearson(int64_t hits, int64_t trials, double confidence = 0.95);

// The power of a number of paired rounds, and the number that is needed to show something.

/// The smallest p that a one-sided signed-rank test of `pairs` differences can give: all signs
/// agree, 2^-pairs. Throws std::logic_error for a negative count.
[[nodiscard]] double smallest_p(int64_t pairs);

/// The fewest pairs with which the smallest p of `tests` tests under Holm can reach `alpha`. A gate
/// with fewer can never fire and must be refused. Throws std::logic_error unless alpha is in (0, 1)
/// and tests at least 1.
[[nodiscard]] int64_t fewest_pairs(double alpha, int64_t tests);

struct Sensitivity {
  double alpha = kAlpha;  ///< one-sided
  double power = kPower;
};

/// The smallest true mean, in its standard errors, that a one-sided t test with so many degrees of
/// freedom, not always a whole number, detects with the power asked for. Throws std::logic_error
/// unless degrees are positive and alpha < power, both in (0, 1).
[[nodiscard]] double detectable_effect(double degrees, const Sensitivity& sensitivity = {});

/// The smallest true mean difference that a one-sided paired t test of `pairs` rounds detects with
/// the power asked for, from the noncentral t distribution; in the unit of `deviation`, the
/// standard deviation of differences. 0 when the deviation is 0. Throws std::logic_error for fewer
/// than two pairs, a negative deviation, and unless alpha < power, both in (0, 1).
[[nodiscard]] double smallest_detectable(double deviation, int64_t pairs,
                                         const Sensitivity& sensitivity = {});

/// The fewest pairs, at least two, with which smallest_detectable() is at most `difference`. Throws
/// likewise, and when the difference is not positive or needs more than a million pairs.
[[nodiscard]] int64_t pairs_to_detect(double deviation, double difference,
                                      const Sensitivity& sensitivity = {});

/// Enough pairs to prove with the power asked for that a true difference of 0 lies within ±margin:
/// each of the two tests gets half of the failures.
[[nodiscard]] int64_t pairs_to_prove_equal(double deviation, double margin,
                                           const Sensitivity& sensitivity = {});

}  // namespace noisemark::reports
