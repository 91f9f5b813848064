#pragma once

#include <cstdint>
#include <span>

#include "reports/compare/signed_rank.h"

namespace noisemark::reports {

struct SignFlipOptions {
  int64_t draws = 10000;  ///< where the signs are too many to try all
  uint64_t seed = 0;
};

struct SignFlip {
  double mean = 0;  ///< the statistic
  double p = 1;
  bool exact = true;  ///< else drawn
};

/// Permutation test of the mean difference (Fisher 1935; Pitman 1937): were there no difference, a
/// round could as well have come out with the opposite sign. All 2^n signs up to 20 rounds; beyond,
/// drawn ones, where the signs at hand count as one of them, so that p is never 0. Means within
/// rounding of the one at hand count as equal. Two-sided: twice the smaller tail, at most 1.
/// Throws std::logic_error for no values, or one that is not finite.
[[nodiscard]] SignFlip sign_flip_test(std::span<const double> differences, Alternative alternative,
                                      const SignFlipOptions& options = {});

}  // namespace noisemark::reports
