#pragma once

#include <span>

#include "reports/result.h"

namespace noisemark::reports {

/// Two one-sided t tests (Schuirmann 1987): is a mean difference proven to lie within ±margin?
struct Equivalence {
  double difference = 0;
  double standard_error = 0;
  double degrees = 0;  ///< of freedom
  double p_lower = 1;  ///< of "the difference is at most -margin"
  double p_upper = 1;  ///< of "the difference is at least +margin"
  Interval interval;   ///< of confidence 1 - 2 alpha; equivalent exactly when within the margin

  /// Proven when at most alpha.
  [[nodiscard]] double p() const { return p_lower > p_upper ? p_lower : p_upper; }
};

/// Of differences of pairs; at least two. Differences that are all equal have no spread: their
/// p-values are 0 or 1. Throws std::logic_error for too few or non-finite values, a margin that is
/// not positive, and an alpha outside (0, 0.5).
[[nodiscard]] Equivalence paired_equivalence(std::span<const double> differences, double margin,
                                             double alpha = 0.05);

/// Of candidate - base in two independent samples of unequal variances (Welch 1947, with
/// Satterthwaite's degrees of freedom); at least two values each. `known_variance` is added to that
/// of the difference, as something known beforehand. Throws likewise.
[[nodiscard]] Equivalence welch_equivalence(std::span<const double> base,
                                            std::span<const double> candidate, double margin,
                                            double alpha = 0.05, double known_variance = 0);

}  // namespace noisemark::reports
