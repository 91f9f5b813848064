#pragma once

#include <span>
#include <vector>

#include "reports/compare/equivalence.h"
#include "reports/compare/stochastic_tier.h"
#include "reports/result.h"

/// What a gated row is judged by, however its runs were made. All of it in logarithms of the
/// worsening: positive is worse.
namespace noisemark::reports {

struct Evidence {
  double estimate = 0;
  double deviation = 0;  ///< of one pair
  Interval wide;         ///< 95 %
  Interval narrow;       ///< 90 %
  Equivalence equivalence;
};

/// One-sided p-values.
struct OneSided {
  double worse = 1;   ///< of "not worse"
  double better = 1;  ///< of "not better"
  double beyond = 1;  ///< of "worse by at most the margin"
};

/// Both sides of a row on their own, as logarithms of what is worse when it is larger.
struct TwoSamples {
  std::vector<double> base;
  std::vector<double> candidate;
};

/// Of pairs that were made in turns: Hodges and Lehmann's estimate with its bootstrap interval, and
/// the signed-rank test, exact. The interval of a few pairs is too short, which is why a regression
/// asks the rank test about the margin too.
[[nodiscard]] OneSided paired_p(std::span<const double> worsening, double margin);
[[nodiscard]] Evidence paired_evidence(std::span<const double> worsening, double margin,
                                       const StochasticOptions& options);

/// Of runs that were not made in turns, as of a stored baseline: Welch's t test with the variance
/// between sessions added, which the runs of one session cannot show. `session_deviation` is the
/// standard deviation by which two sessions of one build differ.
[[nodiscard]] OneSided stored_p(const TwoSamples& sides, double margin, double session_deviation);
[[nodiscard]] Evidence stored_evidence(const TwoSamples& sides, double margin,
                                       double session_deviation, double alpha);

}  // namespace noisemark::reports
