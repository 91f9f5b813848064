#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "suite/data/gaussian_mixture.h"
#include "suite/quality/distance/frechet.h"

namespace noisemark::suite {

/// The exact mean and covariance of the mixture: a reference without sampling noise. `samples` is
/// 0, for there is no number of them.
[[nodiscard]] Gaussian exact_gaussian(const GaussianMixture& mixture);

/// Generated samples against the mixture itself.
struct MixtureDistance {
  FrechetDistance frechet;  ///< in the space of the values themselves: not FID
  int64_t samples = 0;
  /// A set of N perfect samples has a distance above 0 too, since its moments are estimates: the
  /// mean over `floor_sets` sets of N draws of the mixture, and the largest of them.
  double floor_mean = 0;
  double floor_largest = 0;
  std::vector<double> component_share_frac;  ///< [K] of the samples, by their likeliest component
  /// Pearson's statistic of those shares against the weights, with K - 1 degrees of freedom.
  double component_chi_square = 0;
};

struct MixtureDistanceOptions {
  int64_t floor_sets = 5;  ///< 0: no floor
  uint64_t seed = 0;       ///< of the floor's draws (Stream::kSubset)
};

/// samples [N, ...] with D values each, not quantized. Works for any N of at least 2, also N <= D.
/// Throws Error, exit code 2: another number of values, a value that is not finite, fewer than 2
/// samples.
[[nodiscard]] MixtureDistance mixture_distance(const at::Tensor& samples,
                                               const GaussianMixture& mixture,
                                               const MixtureDistanceOptions& options = {});

}  // namespace noisemark::suite
