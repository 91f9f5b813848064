#pragma once

#include <cstdint>
#include <span>

namespace noisemark::reports {

/// What is claimed of the differences when their test is significant.
enum class Alternative { kTwoSided, kGreater, kLess };

struct SignedRank {
  double statistic = 0;  ///< sum of the ranks of the positive differences
  double p = 1;
  int64_t n = 0;      ///< differences that are not zero
  bool exact = true;  ///< else the normal approximation
};

/// Wilcoxon's signed-rank test (1945) of differences around zero. Zeros are left out, as Wilcoxon
/// did; equal magnitudes share their mean rank. Up to 50 differences the distribution over all
/// 2^n signs of the ranks at hand is counted, ties included (Streitberg and Röhmel 1986); beyond,
/// the normal approximation with corrections for ties and continuity. Two-sided: twice the smaller
/// tail, at most 1. Without differences that are not zero p is 1. Throws std::logic_error for a
/// value that is not finite.
[[nodiscard]] SignedRank wilcoxon_signed_rank(std::span<const double> differences,
                                              Alternative alternative);

}  // namespace noisemark::reports
