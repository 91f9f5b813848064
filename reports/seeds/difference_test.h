#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "reports/compare/inference.h"
#include "reports/seeds/study.h"

/// The power of a number of seeds, and the number that is needed. All functions throw
/// std::logic_error for figures that are not finite, a negative error or variance, a margin that is
/// not positive, and unless alpha < power, both in (0, 1).
namespace noisemark::reports {

/// A difference of means whose standard error is estimated.
struct EstimatedDifference {
  double standard_error = 0;
  double degrees = 1;  ///< degrees of freedom of the standard error's estimate
};

/// The probability that two one-sided t tests, each at `alpha`, prove a true `difference` to lie
/// within ±margin. It is exact: over the distribution of the estimated standard error (Owen 1965;
/// Phillips 1990), not by the two noncentral t distributions, which count what both tests miss
/// twice.
[[nodiscard]] double equivalence_power(const EstimatedDifference& of, double difference,
                                       double margin, double alpha);

/// The smallest true difference that a one-sided t test finds with the power asked for; 0 without
/// an error. It uses the noncentral t distribution.
[[nodiscard]] double detectable_difference(const EstimatedDifference& of,
                                           const Sensitivity& sensitivity = {});

/// The knowledge about further seeds after some of them.
struct SeedOutlook {
  TestDesign design = TestDesign::kPaired;
  double variance = 0;    ///< variance of a DifferenceTest
  double difference = 0;  ///< difference that is taken as the true one
  double margin = 0;
};

/// Returns the fewest seeds, at least two (both sides are taken to spread alike in Welch's test),
/// with which the test decides with the power asked for: that the difference is within the margin,
/// or beyond it where it is. It is empty where more than 10,000 would be needed, because the
/// difference lies at the margin.
[[nodiscard]] std::optional<int64_t> seeds_to_decide(const SeedOutlook& outlook,
                                                     const Sensitivity& sensitivity = {});

/// Figures of the same seeds on both sides, so that a larger one is worse and differences add up:
/// logarithms where ratios are judged.
struct SeedValues {
  std::vector<double> reference;
  std::vector<double> candidate;
};

/// Pearson's, of two samples of one length. It is empty for fewer than three pairs, of which it is
/// always ±1, and where one side has no spread. Throws std::logic_error for unequal lengths and
/// values that are not finite.
[[nodiscard]] std::optional<double> correlation(std::span<const double> a,
                                                std::span<const double> b);

/// The correlation below which seeds share too little to pay for the degrees of freedom that
/// pairing costs.
inline constexpr double kWorthPairing = 0.5;

/// Declared before any figure is seen. Welch's test where the correlation lies in [0, 0.5]; else
/// the paired one, which is right whatever the correlation is, also where there is none to measure.
/// A negative correlation is paired because Welch's interval would be too short. The choice by the
/// data at hand keeps the level of the test: of 5 % it makes 4.4 to 5.3, of 2.5 % at most 2.9
/// (simulated; level_test.cpp). The plain choice of the shorter interval would not: of 5 % it makes
/// up to 9.
[[nodiscard]] TestDesign choose_design(std::optional<double> correlation);

/// Is the difference of the means, candidate - reference, within ±margin, or beyond it?
struct DifferenceTest {
  TestDesign design = TestDesign::kPaired;
  std::optional<double> correlation;
  Equivalence equivalence;  ///< two one-sided t tests; interval of confidence 1 - 2 alpha
  double p_worse = 1;       ///< p of the null hypothesis "worse by at most the margin"
  double p_better = 1;      ///< p of the null hypothesis "better by at most the margin"
  double variance = 0;      ///< variance per seed: of a difference, or of both sides added (Welch)
};

/// Throws std::logic_error as paired_equivalence() does, and for sides of unequal length.
[[nodiscard]] DifferenceTest test_difference(const SeedValues& values, double margin, double alpha);

}  // namespace noisemark::reports
