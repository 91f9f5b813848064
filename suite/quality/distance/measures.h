#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "suite/data/gaussian_mixture.h"
#include "suite/quality/distance/draws.h"
#include "suite/quality/distance/frechet.h"

namespace noisemark::suite {

struct KernelDistanceOptions {
  int64_t subsets = 100;
  int64_t subset_size = 1000;
  DrawSubset draw = counter_draws(0);
};

struct KernelDistance {
  double mean = 0;                ///< mean over the subsets, which is unbiased and may be below 0
  double standard_deviation = 0;  ///< deviation over the subsets, divided by their number
                                  ///< (torch-fidelity)
  /// The error of `mean`, as an estimate of the distance between the distributions; see
  /// kernel_distance().
  std::optional<double> standard_error;
  int64_t subsets = 0;
  int64_t subset_size = 0;
};

/// The squared maximum mean discrepancy with the kernel (x.y / d + 1)^3, its unbiased estimate,
/// averaged over subsets (Binkowski et al. 2018, section 4): KID, where the features are those of
/// the 2015 Inception network. a [N1, d], b [N2, d], in float64 on the device of `a`.
///
/// The standard error has two parts: the subsets are few (s^2 / subsets, with s the deviation over
/// them), and they come of the same N samples. The variance of such an estimate falls at least as
/// 1 / N (Hoeffding 1948), so what new samples would change is at most s^2 m / N with m the
/// subset's size and N the smaller set: the error is sqrt(s^2 (1 / subsets + m / N)). It is rather
/// too large where the two distributions agree. Subsets of more than half of a set overlap too much
/// to say anything, and there is none.
///
/// Throws Error, exit code 2: dimensions that differ, values that are not finite, a set smaller
/// than the subsets, subsets of fewer than 2.
[[nodiscard]] KernelDistance kernel_distance(const at::Tensor& a, const at::Tensor& b,
                                             const KernelDistanceOptions& options = {});

/// The unbiased estimate from all of a [m, d] and b [m, d], of one size of at least 2.
[[nodiscard]] double unbiased_discrepancy(const at::Tensor& a, const at::Tensor& b);

struct PrecisionRecall {
  double precision_frac = 0;  ///< share of generated samples that lie where real ones are
  double recall_frac = 0;     ///< share of real samples that lie where generated ones are
  int64_t neighbours = 0;
};

/// Kynkäänniemi et al. 2019, section 2: a set covers the balls around its samples that reach to the
/// k-th nearest other sample of the set; a ball holds its surface. real [N1, d], generated [N2, d],
/// float64 on the device of `real`. Distances are computed for blocks of rows, so that memory grows
/// with N, not with its square. Throws Error, exit code 2: dimensions that differ, values that are
/// not finite, sets of at most k samples, k below 1.
[[nodiscard]] PrecisionRecall precision_recall(const at::Tensor& real, const at::Tensor& generated,
                                               int64_t neighbours = 3);

struct InceptionScore {
  double mean = 0;                ///< mean over the splits, at least 1
  double standard_deviation = 0;  ///< deviation over the splits, divided by their number
  int64_t splits = 0;
};

/// exp(E KL(p(y | x) || p(y))) (Salimans et al. 2016, section 4) from logits [N, classes], in
/// float64, mean and deviation over `splits` consecutive parts of nearly one size. `order` is the
/// order in which samples are dealt to the parts; empty: as they come. torch-fidelity deals them as
/// numpy_permutation(2020, N) says. Throws Error, exit code 2: logits that are not [N, classes] or
/// not finite, fewer samples than splits, splits below 1.
[[nodiscard]] InceptionScore inception_score(const at::Tensor& logits, int64_t splits = 10,
                                             const std::vector<int64_t>& order = {});

/// The exact mean and covariance of the mixture: a reference without sampling noise. `samples` is
/// 0, for there is no number of them.
[[nodiscard]] Gaussian exact_gaussian(const GaussianMixture& mixture);

/// Generated samples against the mixture itself.
struct MixtureDistance {
  FrechetDistance frechet;  ///< distance in the space of the values themselves, which is not FID
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
  uint64_t seed = 0;       ///< seed of the floor's draws (Stream::kSubset)
};

/// samples [N, ...] with D values each, not quantized. Works for any N of at least 2, also N <= D.
/// Throws Error, exit code 2: another number of values, a value that is not finite, fewer than 2
/// samples.
[[nodiscard]] MixtureDistance mixture_distance(const at::Tensor& samples,
                                               const GaussianMixture& mixture,
                                               const MixtureDistanceOptions& options = {});

}  // namespace noisemark::suite
