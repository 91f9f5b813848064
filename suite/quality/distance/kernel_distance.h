#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "suite/quality/distance/subset_draws.h"

namespace noisemark::suite {

struct KernelDistanceOptions {
  int64_t subsets = 100;
  int64_t subset_size = 1000;
  DrawSubset draw = counter_draws(0);
};

struct KernelDistance {
  double mean = 0;                ///< over the subsets; unbiased, so it may be below 0
  double standard_deviation = 0;  ///< over the subsets, divided by their number (torch-fidelity)
  /// Of `mean`, as an estimate of the distance between the distributions; see kernel_distance().
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

}  // namespace noisemark::suite
