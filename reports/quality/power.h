#pragma once

#include <cstdint>
#include <optional>

#include "reports/compare/repetitions.h"
#include "reports/quality/quality.h"

/// How much a number of seeds can show, and how many are needed. All functions throw
/// std::logic_error for figures that are not finite, a negative error or variance, a margin that is
/// not positive, and unless alpha < power, both in (0, 1).
namespace noisemark::reports {

/// A difference of means whose standard error is estimated.
struct EstimatedDifference {
  double standard_error = 0;
  double degrees = 1;  ///< of freedom, of the standard error's estimate
};

/// The probability that two one-sided t tests, each at `alpha`, prove a true `difference` to lie
/// within ±margin. Exact: over the distribution of the estimated standard error (Owen 1965;
/// Phillips 1990), not by the two noncentral t distributions, which count what both tests miss
/// twice.
[[nodiscard]] double equivalence_power(const EstimatedDifference& of, double difference,
                                       double margin, double alpha);

/// The smallest true difference that a one-sided t test finds with the power asked for; 0 without
/// an error. By the noncentral t distribution.
[[nodiscard]] double detectable_difference(const EstimatedDifference& of,
                                           const Sensitivity& sensitivity = {});

/// What is known after some seeds about more of them.
struct SeedOutlook {
  TestDesign design = TestDesign::kPaired;
  double variance = 0;    ///< as in DifferenceTest
  double difference = 0;  ///< taken as the true one
  double margin = 0;
};

/// Of Welch's test both sides are taken to spread alike. The fewest seeds, at least two, with which
/// the test decides with the power asked for: that the difference is within the margin, or beyond
/// it where it is. Empty where more than 10,000 would be needed, because the difference lies at the
/// margin.
[[nodiscard]] std::optional<int64_t> seeds_to_decide(const SeedOutlook& outlook,
                                                     const Sensitivity& sensitivity = {});

}  // namespace noisemark::reports
