#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string_view>

#include "suite/random/counter_rng.h"

namespace noisemark::suite {

/// x0 = mu_k + U_k z + sigma xi, with k drawn by weight and z, xi standard normal: data whose every
/// diffusion quantity is known in closed form. All tensors are float64 on the CPU. Immutable.
class GaussianMixture {
 public:
  /// weights [K] (positive, normalised here), means [K, D], factors U [K, D, R], sigma above 0.
  GaussianMixture(const at::Tensor& weights, const at::Tensor& means, const at::Tensor& factors,
                  double sigma);

  /// The data of the `gmm16` benchmarks: 8 smooth patterns of 1 x 16 x 16, rank 4, sigma 0.05,
  /// equal weights. It is locked: the same bits on every machine.
  [[nodiscard]] static GaussianMixture gmm16();

  [[nodiscard]] int64_t components() const { return means_.size(0); }
  [[nodiscard]] int64_t dimension() const { return means_.size(1); }
  [[nodiscard]] int64_t rank() const { return factors_.size(2); }
  [[nodiscard]] double sigma() const { return sigma_; }
  [[nodiscard]] const at::Tensor& weights() const { return weights_; }
  [[nodiscard]] const at::Tensor& means() const { return means_; }
  [[nodiscard]] const at::Tensor& factors() const { return factors_; }

  /// Writes one draw (D values) and returns its component. Same bits on every machine.
  int64_t sample(CounterRng rng, std::span<float> out) const;

  [[nodiscard]] at::Tensor mean() const;        ///< [D], exact
  [[nodiscard]] at::Tensor covariance() const;  ///< [D, D], exact

  /// The knowledge of x0 and the noise given x_t = sqrt(alpha_bar) x0 + sqrt(1 - alpha_bar) noise.
  struct Posterior {
    at::Tensor x0;                ///< E[x0 | x_t], shape of x_t
    at::Tensor noise;             ///< E[noise | x_t], shape of x_t
    at::Tensor responsibilities;  ///< P(k | x_t) [N, K]
  };
  /// x_t [N, ...] with D values per sample, alpha_bar [N] in [0, 1].
  [[nodiscard]] Posterior posterior(const at::Tensor& x_t, const at::Tensor& alpha_bar) const;

  /// The Bayes-optimal prediction of `objective` ("eps", "x0" or "v"): no predictor has a smaller
  /// expected squared error. Shape of x_t.
  [[nodiscard]] at::Tensor optimal_prediction(const at::Tensor& x_t, const at::Tensor& alpha_bar,
                                              std::string_view objective) const;

  /// [N]: squared error, mean over pixels, of optimal_prediction on these very draws.
  [[nodiscard]] at::Tensor optimal_losses(const at::Tensor& x0, const at::Tensor& noise,
                                          const at::Tensor& alpha_bar,
                                          std::string_view objective) const;

 private:
  at::Tensor weights_;
  at::Tensor means_;
  at::Tensor factors_;
  double sigma_;
  at::Tensor axes_;         ///< U_k V_k [K, D, R]: the same covariance, orthogonal columns
  at::Tensor eigenvalues_;  ///< squared lengths of the axes [K, R]
};

/// The mixture of x0 and noise that `objective` names, from x0, noise [N, ...] and alpha_bar [N]:
/// noise, x0, or v = sqrt(alpha_bar) noise - sqrt(1 - alpha_bar) x0 (Salimans & Ho 2022).
[[nodiscard]] at::Tensor combine_target(const at::Tensor& x0, const at::Tensor& noise,
                                        const at::Tensor& alpha_bar, std::string_view objective);

}  // namespace noisemark::suite
