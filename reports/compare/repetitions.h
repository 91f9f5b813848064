#pragma once

#include <cstdint>

/// How much a number of paired rounds can show, and how many are needed to show something.
namespace noisemark::reports {

/// The smallest p that a one-sided signed-rank test of `pairs` differences can give: all signs
/// agree, 2^-pairs. Throws std::logic_error for a negative count.
[[nodiscard]] double smallest_p(int64_t pairs);

/// The fewest pairs with which the smallest p of `tests` tests under Holm can reach `alpha`. A gate
/// with fewer can never fire and must be refused. Throws std::logic_error unless alpha is in (0, 1)
/// and tests at least 1.
[[nodiscard]] int64_t fewest_pairs(double alpha, int64_t tests);

struct Sensitivity {
  double alpha = 0.05;  ///< one-sided
  double power = 0.8;
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
