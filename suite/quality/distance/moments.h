#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace noisemark::suite {

/// What a Fréchet distance knows of a set of features.
struct Gaussian {
  at::Tensor mean;        ///< [d], float64
  at::Tensor covariance;  ///< [d, d], float64, symmetric, divided by N - 1
  int64_t samples = 0;    ///< N; 0 where it is not known

  [[nodiscard]] int64_t dimension() const { return mean.size(0); }
};

/// Throws Error, exit code 2, beginning with `where`: mean not [d], covariance not [d, d], a value
/// that is not finite, a covariance that is not symmetric (to 1e-6 of its largest value) or has a
/// negative variance. Returns the parts in float64, the covariance made exactly symmetric.
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

  /// As if the other's features had come after ours. Throws Error, exit code 2, if their numbers of
  /// features differ.
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

}  // namespace noisemark::suite
