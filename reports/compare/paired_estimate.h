#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reports/result.h"
#include "reports/statistics.h"

/// How much one of two builds differs from the other, from rounds that ran both. Every function
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

}  // namespace noisemark::reports
