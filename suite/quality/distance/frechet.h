#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "suite/quality/distance/moments.h"

namespace noisemark::suite {

/// The squared Fréchet (2-Wasserstein) distance between two Gaussians (Dowson & Landau 1982),
///   |m1 - m2|^2 + Tr S1 + Tr S2 - 2 Tr (S1 S2)^(1/2),
/// which is FID where the features are those of the 2015 Inception network.
struct FrechetDistance {
  double value = 0;         ///< at least 0: rounding below is cut off
  double mean_term = 0;     ///< |m1 - m2|^2
  double trace_term = 0;    ///< Tr S1 + Tr S2
  double cross_term = 0;    ///< Tr (S1 S2)^(1/2)
  std::string_view method;  ///< of the cross term: "cholesky", "factors" or "features"
};

/// In float64 on the device of `a`. With S = F F' for both, Tr (S1 S2)^(1/2) is the sum of the
/// singular values of F1' F2. Three ways to it:
///
/// - "cholesky": F1 = L1, and the squares of the singular values are the eigenvalues of L1' S2 L1,
///   one symmetric problem. A root magnifies the error of a small eigenvalue, so this way is left
///   when the sum of what the roots may be wrong by exceeds 1e-7 of Tr S1 + Tr S2.
/// - "factors": the singular values themselves, whose error is that of rounding whatever their
/// size.
///   F is the Cholesky factor, or by eigenvectors where the covariance has not full rank;
///   eigenvalues below d * 2^-52 of the largest are then rounding, and 0.
/// - "features": see below.
///
/// Never the eigenvalues of S1 S2 itself, which is not symmetric. Throws Error, exit code 2, when
/// the dimensions differ.
[[nodiscard]] FrechetDistance frechet_distance(const Gaussian& a, const Gaussian& b);

/// Of the features themselves, [N, d] each, in float64 on the device of `a`. A set of N <= d
/// samples has a covariance of rank N - 1; its centred features over sqrt(N - 1) are its factor F,
/// which takes no d x d matrix at all and is exact to rounding (the low-rank form of arXiv
/// 2009.14075). With both N > d it is frechet_distance of the moments. Throws Error, exit code 2:
/// dimensions that differ, values that are not finite, fewer than 2 samples.
[[nodiscard]] FrechetDistance frechet_distance(const at::Tensor& a, const at::Tensor& b);

/// One set given as features [N, d], the other by its moments.
[[nodiscard]] FrechetDistance frechet_distance(const at::Tensor& a, const Gaussian& b);

}  // namespace noisemark::suite
