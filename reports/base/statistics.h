#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>

/// Order statistics and intervals of samples. Every function throws std::logic_error for an empty
/// or non-finite sample: callers say why a figure is missing, they do not compute it from nothing.
namespace noisemark::reports {

/// The chance of a false alarm that every test of this program shares out, unless told otherwise.
inline constexpr double kAlpha = 0.05;
/// The chance with which a difference that is said to be detectable is found, likewise.
inline constexpr double kPower = 0.8;

struct Interval {
  double low = 0;
  double high = 0;
};

/// Quantile `p` in [0, 1], linear between order statistics (Hyndman and Fan's type 7, numpy's
/// default).
[[nodiscard]] double quantile(std::span<const double> samples, double p);

[[nodiscard]] double median(std::span<const double> samples);

/// Median of the absolute deviations from the median, not scaled.
[[nodiscard]] double median_absolute_deviation(std::span<const double> samples);

[[nodiscard]] double mean(std::span<const double> samples);

/// The sample's standard deviation, with n - 1 in the denominator; needs at least two samples.
[[nodiscard]] double standard_deviation(std::span<const double> samples);

/// Distribution-free interval of the median between two order statistics, from the binomial
/// distribution: the narrowest symmetric pair of ranks that covers at least `confidence`. It is
/// empty when there are too few samples for any pair to (fewer than 6 at 0.95). The samples are
/// taken as independent; within one process they rarely are, so it describes this run, not the next
/// one.
[[nodiscard]] std::optional<Interval> median_interval(std::span<const double> samples,
                                                      double confidence = 0.95);

/// The resamples of every bootstrap, unless told otherwise.
inline constexpr int64_t kResamples = 10000;

struct BootstrapOptions {
  int64_t resamples = kResamples;
  uint64_t seed = 0;
  double confidence = 0.95;
};

/// A draw below `bound`, the same on every platform: the standard fixes the generator's sequence
/// but not that of its distributions, so this takes the high word of draw * bound. It is uniform up
/// to a bias of bound / 2^64.
[[nodiscard]] inline size_t index_below(std::mt19937_64& generator, size_t bound) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<size_t>((static_cast<Wide>(generator()) * bound) >> 64U);
}

}  // namespace noisemark::reports
