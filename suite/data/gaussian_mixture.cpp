#include "suite/data/gaussian_mixture.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "suite/data/generated.h"

namespace noisemark::suite {
namespace {

constexpr uint64_t kGmm16Seed = 16;
constexpr int64_t kGmm16Components = 8;
constexpr int64_t kGmm16Rank = 4;
constexpr int64_t kGmm16Resolution = 16;
constexpr double kGmm16Sigma = 0.05;
constexpr double kGmm16MeanPeak = 0.6;   ///< largest magnitude of every pattern
constexpr double kGmm16FactorRms = 0.1;  ///< root mean square of every factor's column

std::vector<double> smooth_pattern(uint64_t component, uint64_t part, int64_t max_frequency) {
  CounterRng rng(kGmm16Seed, Stream::kData, part, component);
  std::vector<double> pattern(kGmm16Resolution * kGmm16Resolution);
  SmoothField(rng, {1, kGmm16Resolution, 4, max_frequency}).fill(pattern);
  return pattern;
}

at::Tensor to_double(const at::Tensor& x) {
  return x.to(at::kCPU, at::kDouble).contiguous();
}

/// [N] -> [N, 1, ...], to broadcast against `like`.
at::Tensor per_sample(const at::Tensor& values, const at::Tensor& like) {
  std::vector<int64_t> shape(static_cast<size_t>(like.dim()), 1);
  shape[0] = values.size(0);
  return to_double(values).view(shape);
}

}  // namespace

GaussianMixture::GaussianMixture(const at::Tensor& weights, const at::Tensor& means,
                                 const at::Tensor& factors, double sigma)
    : weights_(to_double(weights)),
      means_(to_double(means)),
      factors_(to_double(factors)),
      sigma_(sigma) {
  TORCH_CHECK(means_.dim() == 2 && factors_.dim() == 3 && weights_.dim() == 1 &&
                  factors_.size(0) == components() && factors_.size(1) == dimension() &&
                  weights_.size(0) == components(),
              "weights [K], means [K, D] and factors [K, D, R] do not fit together");
  TORCH_CHECK(sigma > 0 && weights_.min().item<double>() > 0, "sigma and weights must be positive");
  weights_ /= weights_.sum();
  const auto [values, vectors] = at::linalg_eigh(at::matmul(factors_.mT(), factors_));
  axes_ = at::matmul(factors_, vectors);
  eigenvalues_ = values.clamp_min(0);
}

GaussianMixture GaussianMixture::gmm16() {
  constexpr int64_t kDimension = kGmm16Resolution * kGmm16Resolution;
  const at::Tensor means = at::empty({kGmm16Components, kDimension}, at::kDouble);
  const at::Tensor factors = at::empty({kGmm16Components, kDimension, kGmm16Rank}, at::kDouble);
  auto mean = means.accessor<double, 2>();
  auto factor = factors.accessor<double, 3>();
  for (int64_t k = 0; k < kGmm16Components; ++k) {
    const auto pattern = smooth_pattern(k, 0, 2);
    double peak = 0;
    for (const double value : pattern) peak = std::max(peak, std::abs(value));
    for (int64_t d = 0; d < kDimension; ++d) mean[k][d] = pattern[d] * (kGmm16MeanPeak / peak);
    for (int64_t r = 0; r < kGmm16Rank; ++r) {
      const auto column = smooth_pattern(k, 1 + r, 3);
      double square = 0;
      for (const double value : column) square += value * value;
      const double scale = kGmm16FactorRms / std::sqrt(square / kDimension);
      for (int64_t d = 0; d < kDimension; ++d) factor[k][d][r] = column[d] * scale;
    }
  }
  return {at::full({kGmm16Components}, 1.0 / kGmm16Components, at::kDouble), means, factors,
          kGmm16Sigma};
}

int64_t GaussianMixture::sample(CounterRng rng, std::span<float> out) const {
  TORCH_CHECK(static_cast<int64_t>(out.size()) == dimension(), "wrong size of the output");
  const double u = rng.next_uniform();
  const double* weight = weights_.const_data_ptr<double>();
  int64_t k = 0;
  for (double below = weight[0]; u > below && k + 1 < components();) below += weight[++k];
  std::vector<double> z(static_cast<size_t>(rank()));
  std::vector<double> x(out.size());
  rng.fill_normal(z);
  rng.fill_normal(x);
  const double* mean = means_.const_data_ptr<double>() + k * dimension();
  const double* factor = factors_.const_data_ptr<double>() + k * dimension() * rank();
  for (int64_t d = 0; d < dimension(); ++d) {
    double value = mean[d] + sigma_ * x[d];
    for (int64_t r = 0; r < rank(); ++r) value += factor[d * rank() + r] * z[r];
    out[d] = static_cast<float>(value);
  }
  return k;
}

at::Tensor GaussianMixture::mean() const {
  return at::matmul(weights_, means_);
}

at::Tensor GaussianMixture::covariance() const {
  const at::Tensor centered = means_ - mean();
  const at::Tensor within = at::matmul(factors_, factors_.mT());             // [K, D, D]
  const at::Tensor between = centered.unsqueeze(2) * centered.unsqueeze(1);  // [K, D, D]
  const at::Tensor isotropic = at::eye(dimension(), at::kDouble) * sigma_ * sigma_;
  return (weights_.view({-1, 1, 1}) * (within + between)).sum(0) + isotropic;
}

// With a = sqrt(alpha_bar), s^2 = 1 - alpha_bar, d = x_t - a mu_k, orthogonal axes w_j of squared
// length l_j, tau = a^2 sigma^2 + s^2 and q_j = w_j.d / (tau + a^2 l_j), the matrix inversion lemma
// on C = Cov(x_t | k) = a^2 U U' + tau I gives
//   C^-1 d = (d - a^2 sum_j q_j w_j) / tau,
//   E[noise | x_t, k] = s C^-1 d,
//   E[x0 | x_t, k] = mu_k + a (sigma^2 d + s^2 sum_j q_j w_j) / tau,
// none of which divides by a or s, so both ends of the process are safe.
GaussianMixture::Posterior GaussianMixture::posterior(const at::Tensor& x_t,
                                                      const at::Tensor& alpha_bar) const {
  const at::Tensor x = to_double(x_t).view({x_t.size(0), 1, dimension()});  // [N, 1, D]
  const at::Tensor a2 = to_double(alpha_bar).view({-1, 1, 1});              // [N, 1, 1]
  const at::Tensor a = a2.sqrt();
  const at::Tensor s2 = 1 - a2;
  const at::Tensor tau = a2 * (sigma_ * sigma_) + s2;
  const at::Tensor d = x - a * means_;                                // [N, K, D]
  const at::Tensor p = at::matmul(d.unsqueeze(2), axes_).squeeze(2);  // [N, K, R]
  const at::Tensor spread = tau + a2 * eigenvalues_;                  // [N, K, R]
  const at::Tensor q = p / spread;
  const at::Tensor along = at::matmul(axes_, q.unsqueeze(3)).squeeze(3);  // [N, K, D]

  const at::Tensor square = ((d * d).sum(2) - a2.squeeze(2) * (p * q).sum(2)) / tau.squeeze(2);
  const at::Tensor log_determinant =
      spread.log().sum(2) + static_cast<double>(dimension() - rank()) * tau.squeeze(2).log();
  const at::Tensor responsibilities =
      at::softmax(weights_.log() - 0.5 * (square + log_determinant), 1);  // [N, K]

  const at::Tensor x0 = means_ + a * (d * (sigma_ * sigma_) + s2 * along) / tau;
  const at::Tensor noise = s2.sqrt() * (d - a2 * along) / tau;
  const at::Tensor r = responsibilities.unsqueeze(1);  // [N, 1, K]
  return {at::matmul(r, x0).view(x_t.sizes()), at::matmul(r, noise).view(x_t.sizes()),
          responsibilities};
}

at::Tensor GaussianMixture::optimal_prediction(const at::Tensor& x_t, const at::Tensor& alpha_bar,
                                               std::string_view objective) const {
  const Posterior known = posterior(x_t, alpha_bar);
  return combine_target(known.x0, known.noise, alpha_bar, objective);
}

at::Tensor GaussianMixture::optimal_losses(const at::Tensor& x0, const at::Tensor& noise,
                                           const at::Tensor& alpha_bar,
                                           std::string_view objective) const {
  const at::Tensor clean = to_double(x0);
  const at::Tensor drawn = to_double(noise);
  const at::Tensor a2 = per_sample(alpha_bar, clean);
  const at::Tensor x_t = a2.sqrt() * clean + (1 - a2).sqrt() * drawn;
  const at::Tensor error = optimal_prediction(x_t, alpha_bar, objective) -
                           combine_target(clean, drawn, alpha_bar, objective);
  return (error * error).flatten(1).mean(1);
}

at::Tensor combine_target(const at::Tensor& x0, const at::Tensor& noise,
                          const at::Tensor& alpha_bar, std::string_view objective) {
  if (objective == "eps") return noise;
  if (objective == "x0") return x0;
  TORCH_CHECK(objective == "v", "no objective ", std::string(objective));
  const at::Tensor a2 = per_sample(alpha_bar, x0);
  return a2.sqrt() * noise - (1 - a2).sqrt() * x0;
}

}  // namespace noisemark::suite
