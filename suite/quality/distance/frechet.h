#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace noisemark::suite {

/// The moments that a Fréchet distance needs of a set of features.
struct Gaussian {
  at::Tensor mean;        ///< [d], float64
  at::Tensor covariance;  ///< [d, d], float64, symmetric, divided by N - 1
  int64_t samples = 0;    ///< N; 0 where it is not known

  [[nodiscard]] int64_t dimension() const { return mean.size(0); }
};

/// Throws Error, exit code 2, beginning with `where`: mean not [d], covariance not [d, d], a value
/// that is not finite, a covariance that is not symmetric (to 1e-6 of its largest value) or has a
/// negative variance along any axis, beyond rounding: 1e-5 of the largest one, or d * 2^-23 of it
/// where that is less and not every value is one of float32. Returns the parts in float64, the
/// covariance made exactly symmetric.
[[nodiscard]] Gaussian checked_gaussian(const at::Tensor& mean, const at::Tensor& covariance,
                                        const std::string& where);

/// Mean and covariance of features that come batch by batch, in float64 on the device where they
/// lie. Each batch is centred on its own mean, and the two sums of squares are joined with the
/// correction of Chan, Golub & LeVeque (1979), so a large common offset costs no digits. The result
/// depends on the order and size of the batches by rounding alone.
class Moments {
 public:
  /// Holds (d + d * d) * 8 bytes on `device`.
  explicit Moments(int64_t dimension, at::Device device = at::kCPU);

  /// features [n, d] of any floating type, on any device; n may be 0. Throws Error, exit code 2,
  /// for another shape and for a value that is not finite, with the number of its row, counted from
  /// the first of all.
  void add(const at::Tensor& features);

  /// Adds the other's features, as if they had come after ours. Throws Error, exit code 2, if their
  /// numbers of features differ.
  void merge(const Moments& other);

  [[nodiscard]] int64_t samples() const { return samples_; }
  [[nodiscard]] int64_t dimension() const { return mean_.size(0); }

  /// Copies. Throws Error, exit code 2, of fewer than 2 samples, which have no covariance.
  [[nodiscard]] Gaussian gaussian() const;

 private:
  void join(const at::Tensor& mean, int64_t samples);

  int64_t samples_ = 0;
  at::Tensor mean_;
  at::Tensor squares_;  ///< sum of (x - mean)(x - mean)'; only blocks on and above the diagonal
};

/// Throws Error, exit code 2: features that are not [n, d] of floating type, or hold a value that
/// is not finite. Rows are counted from `first_row` in messages.
void require_finite_features(const at::Tensor& features, const std::string& where,
                             int64_t first_row = 0);

/// The squared Fréchet (2-Wasserstein) distance between two Gaussians (Dowson & Landau 1982),
///   |m1 - m2|^2 + Tr S1 + Tr S2 - 2 Tr (S1 S2)^(1/2),
/// which is FID where the features are those of the 2015 Inception network.
struct FrechetDistance {
  double value = 0;         ///< is at least 0: rounding below is cut off
  double mean_term = 0;     ///< |m1 - m2|^2
  double trace_term = 0;    ///< Tr S1 + Tr S2
  double cross_term = 0;    ///< Tr (S1 S2)^(1/2)
  std::string_view method;  ///< way to the cross term: "cholesky", "factors" or "features"
};

/// Computes the distance in float64 on the device of `a`. With S = F F' for both, Tr (S1 S2)^(1/2)
/// is the sum of the singular values of F1' F2. Three ways to it:
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

/// The distance of the features themselves, [N, d] each, in float64 on the device of `a`. A set of
/// N <= d samples has a covariance of rank N - 1; its centred features over sqrt(N - 1) are its
/// factor F, which takes no d x d matrix at all and is exact to rounding (the low-rank form of
/// arXiv 2009.14075). With both N > d it is frechet_distance of the moments. Throws Error, exit
/// code 2: dimensions that differ, values that are not finite, fewer than 2 samples.
[[nodiscard]] FrechetDistance frechet_distance(const at::Tensor& a, const at::Tensor& b);

/// One set given as features [N, d], the other by its moments.
[[nodiscard]] FrechetDistance frechet_distance(const at::Tensor& a, const Gaussian& b);

}  // namespace noisemark::suite
