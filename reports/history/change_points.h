#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// Finds where the distribution of a series changes: E-divisive means (Matteson and James, "A
/// Nonparametric Approach for Multiple Change Point Analysis of Multivariate Data", Journal of the
/// American Statistical Association 109, 2014), as Daly et al. (ICPE 2020) use it for a
/// continuous benchmark. It knows no shape of the noise, and several changes are found one after
/// the other: each time the split with the greatest energy distance, tested by permuting the values
/// within the parts that were found before. As in the paper the right side of a split may end
/// before its part does, so that a level that comes back hides no change; searching that end takes
/// a time in proportion to the square of the number of values.
namespace noisemark::reports {

struct ChangePointOptions {
  double level = 0.01;         ///< significance level of the test of each further change
  int64_t permutations = 999;  ///< the smallest p is 1 / (permutations + 1)
  uint64_t seed = 0;
  size_t shortest = 3;  ///< values between two changes; a lone outlier is no change
};

/// The share of series without a change in which the default options find one, as a test measures
/// it. The level of one test is what it would be in the long run.
inline constexpr double kFalseAlarms = 0.013;

struct ChangePoint {
  size_t at = 0;  ///< the first value after the change
  double p = 1;
};

/// Returns the change points by rising position. Series in whose order nothing changed get one with
/// a probability of at most `level`, whatever the noise: then every order was equally likely. The
/// points are bit for bit the same on every platform for the same seed. Throws std::logic_error for
/// a value that is not finite and for options that can find nothing (a level below the smallest p).
[[nodiscard]] std::vector<ChangePoint> change_points(std::span<const double> values,
                                                     const ChangePointOptions& options = {});

/// The fewest values in which any change can be found: the order of fewer has too few
/// permutations that split them otherwise.
[[nodiscard]] size_t fewest_values(const ChangePointOptions& options = {});

struct Split {
  size_t at = 0;      ///< the first value of the right part; 0: the series is too short to split
  double energy = 0;  ///< scaled energy distance between the parts, with exponent 1
};

/// The split of a series with the greatest energy over all ends of its right part, the first of
/// equals.
[[nodiscard]] Split best_split(std::span<const double> values, size_t shortest);

}  // namespace noisemark::reports
