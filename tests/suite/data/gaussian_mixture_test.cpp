#include "suite/data/gaussian_mixture.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_cholesky.h>
#include <ATen/ops/linalg_inv.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

#include "reports/base/sha256.h"

namespace noisemark::suite {
namespace {

at::Tensor normals(uint64_t sample, at::IntArrayRef shape) {
  const at::Tensor out = at::zeros(shape, at::kDouble);
  CounterRng(21, Stream::kPerturb, 0, sample)
      .fill_normal(std::span(out.mutable_data_ptr<double>(), static_cast<size_t>(out.numel())));
  return out;
}

/// 3 components in 6 dimensions of rank 2, close enough to overlap.
GaussianMixture small_mixture() {
  return {at::tensor({1.0, 2.0, 3.0}, at::kDouble), normals(1, {3, 6}) * 0.5,
          normals(2, {3, 6, 2}) * 0.7, 0.3};
}

struct Draws {
  at::Tensor x0;     // [N, D]
  at::Tensor noise;  // [N, D]
};

Draws draw(const GaussianMixture& mixture, int64_t count) {
  std::vector<float> x(static_cast<size_t>(mixture.dimension()));
  Draws draws{at::zeros({count, mixture.dimension()}, at::kDouble),
              normals(3, {count, mixture.dimension()})};
  for (int64_t i = 0; i < count; ++i) {
    mixture.sample(CounterRng(9, Stream::kData, 0, static_cast<uint64_t>(i)), x);
    for (int64_t d = 0; d < mixture.dimension(); ++d) {
      draws.x0.mutable_data_ptr<double>()[i * mixture.dimension() + d] = x[d];
    }
  }
  return draws;
}

at::Tensor diffuse(const Draws& draws, double alpha_bar) {
  return std::sqrt(alpha_bar) * draws.x0 + std::sqrt(1 - alpha_bar) * draws.noise;
}

double largest(const at::Tensor& x) {
  return x.abs().max().item<double>();
}

/// E[x0 | x_t] by dense Gaussian algebra: Sigma_t = alpha_bar Sigma_0 + (1 - alpha_bar) I, inverted
/// and factored as a D x D matrix.
at::Tensor dense_posterior_mean(const GaussianMixture& mixture, const at::Tensor& x_t,
                                double alpha_bar) {
  const double a = std::sqrt(alpha_bar);
  const at::Tensor identity = at::eye(mixture.dimension(), at::kDouble);
  std::vector<at::Tensor> logits;
  std::vector<at::Tensor> means;
  for (int64_t k = 0; k < mixture.components(); ++k) {
    const at::Tensor u = mixture.factors()[k];
    const at::Tensor mu = mixture.means()[k];
    const at::Tensor sigma_0 = at::matmul(u, u.t()) + identity * mixture.sigma() * mixture.sigma();
    const at::Tensor sigma_t = alpha_bar * sigma_0 + (1 - alpha_bar) * identity;
    const at::Tensor inverse = at::linalg_inv(sigma_t);
    const at::Tensor d = x_t - a * mu;
    const at::Tensor root = at::linalg_cholesky(sigma_t);
    logits.push_back(mixture.weights()[k].log() - root.diagonal().log().sum() -
                     0.5 * (at::matmul(d, inverse) * d).sum(1));
    means.push_back(mu + a * at::matmul(at::matmul(d, inverse), sigma_0));
  }
  const at::Tensor weights = at::softmax(at::stack(logits, 1), 1);  // [N, K]
  return (weights.unsqueeze(2) * at::stack(means, 1)).sum(1);       // [N, D]
}

TEST(GaussianMixture, posterior_mean_equals_dense_gaussian_algebra) {
  for (const auto& mixture : {small_mixture(), GaussianMixture::gmm16()}) {
    const Draws draws = draw(mixture, 32);
    for (const double alpha_bar : {0.9999, 0.9, 0.5, 0.1, 1e-4}) {
      const at::Tensor x_t = diffuse(draws, alpha_bar);
      const auto posterior = mixture.posterior(x_t, at::full({32}, alpha_bar, at::kDouble));
      const at::Tensor expected = dense_posterior_mean(mixture, x_t, alpha_bar);
      // The dense covariance has a condition number of up to 1e4, which costs 4 of 16 digits.
      EXPECT_LT(largest(posterior.x0 - expected), 1e-10) << alpha_bar;
      // The two means must put the observation back together.
      const at::Tensor again =
          std::sqrt(alpha_bar) * posterior.x0 + std::sqrt(1 - alpha_bar) * posterior.noise;
      EXPECT_LT(largest(again - x_t), 1e-10) << alpha_bar;
    }
  }
}

/// E[x0 | x_t] = E[x0 p(x_t | x0)] / E[p(x_t | x0)], estimated from 100,000 draws of x0. The error
/// of such a ratio is about sqrt(variance / effective draws); five of them are allowed.
TEST(GaussianMixture, posterior_mean_equals_importance_sampling) {
  const GaussianMixture mixture = small_mixture();
  constexpr double kAlphaBar = 0.3;
  constexpr int64_t kDraws = 100'000;
  const Draws draws = draw(mixture, kDraws);
  const at::Tensor x_t = diffuse({draws.x0.slice(0, 0, 3), draws.noise.slice(0, 0, 3)}, kAlphaBar);
  const auto posterior = mixture.posterior(x_t, at::full({3}, kAlphaBar, at::kDouble));
  for (int64_t i = 0; i < 3; ++i) {
    const at::Tensor distance =
        (x_t[i] - std::sqrt(kAlphaBar) * draws.x0).square().sum(1) / (1 - kAlphaBar);
    const at::Tensor weights = at::softmax(-0.5 * distance, 0);  // [draws]
    const at::Tensor mean = at::matmul(weights, draws.x0);
    const at::Tensor variance = at::matmul(weights, (draws.x0 - mean).square());
    const at::Tensor error = (variance * weights.square().sum()).sqrt();
    EXPECT_LT(((posterior.x0[i] - mean).abs() / error).max().item<double>(), 5);
  }
}

TEST(GaussianMixture, samples_have_the_exact_mean_and_covariance) {
  constexpr int64_t kDraws = 40'000;
  for (const auto& mixture : {small_mixture(), GaussianMixture::gmm16()}) {
    const int64_t count = mixture.dimension() > 10 ? kDraws / 4 : kDraws;
    const at::Tensor x = draw(mixture, count).x0;
    const at::Tensor exact = mixture.covariance();
    const auto n = static_cast<double>(count);
    const at::Tensor mean_error =
        (x.mean(0) - mixture.mean()).abs() / (exact.diagonal() / n).sqrt();
    EXPECT_LT(largest(mean_error), 5);  // standard errors
    const at::Tensor centered = x - mixture.mean();
    const at::Tensor empirical = at::matmul(centered.t(), centered) / n;
    // A Gaussian has Var(s_ij) = (c_ii c_jj + c_ij^2) / n; these mixtures have lighter tails.
    const at::Tensor variance =
        (at::outer(exact.diagonal(), exact.diagonal()) + exact.square()) / n;
    EXPECT_LT(largest((empirical - exact) / variance.sqrt()), 6);
  }
}

TEST(GaussianMixture, components_come_by_weight) {
  const GaussianMixture mixture = small_mixture();
  std::vector<double> counts(3, 0);
  std::vector<float> x(6);
  constexpr int kDraws = 20'000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    ++counts.at(mixture.sample(CounterRng(4, Stream::kData, 0, i), x));
  }
  for (int k = 0; k < 3; ++k) {
    const double p = (k + 1) / 6.0;
    EXPECT_NEAR(counts[k], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p))) << k;
  }
}

TEST(GaussianMixture, gmm16_stays_about_in_the_range_of_pictures) {
  const Draws draws = draw(GaussianMixture::gmm16(), 2000);
  EXPECT_LT(largest(draws.x0), 2.0);
  const double outside = (draws.x0.abs() > 1).to(at::kDouble).mean().item<double>();
  EXPECT_LT(outside, 0.01);
}

/// The bits of the mixture and of a draw are part of the definition.
TEST(GaussianMixture, gmm16_is_locked) {
  const GaussianMixture mixture = GaussianMixture::gmm16();
  EXPECT_EQ(mixture.components(), 8);
  EXPECT_EQ(mixture.dimension(), 256);
  EXPECT_EQ(mixture.rank(), 4);
  EXPECT_EQ(mixture.sigma(), 0.05);
  reports::Sha256 hash;
  const auto add = [&hash](const auto* values, int64_t count) {
    hash.update(std::as_bytes(std::span(values, static_cast<size_t>(count))));
  };
  add(mixture.means().const_data_ptr<double>(), mixture.means().numel());
  add(mixture.factors().const_data_ptr<double>(), mixture.factors().numel());
  std::vector<float> x(256);
  for (uint64_t i = 0; i < 16; ++i) {
    mixture.sample(CounterRng(0, Stream::kData, 1, i), x);
    add(x.data(), 256);
  }
  EXPECT_EQ(hash.hex(), "824c93c31b10326ad36c19300ca8f0766baeca1db168d9ecbe42773ee72fb9bf");
}

TEST(GaussianMixture, without_noise_the_posterior_is_the_picture_itself) {
  const GaussianMixture mixture = GaussianMixture::gmm16();
  const Draws draws = draw(mixture, 16);
  const auto posterior = mixture.posterior(draws.x0, at::full({16}, 1.0, at::kDouble));
  EXPECT_LT(largest(posterior.x0 - draws.x0), 1e-12);
  EXPECT_EQ(largest(posterior.noise), 0);
}

TEST(GaussianMixture, at_pure_noise_the_posterior_is_the_prior) {
  const GaussianMixture mixture = GaussianMixture::gmm16();
  const at::Tensor noise = normals(5, {16, 256});
  const auto posterior = mixture.posterior(noise, at::full({16}, 0.0, at::kDouble));
  EXPECT_LT(largest(posterior.x0 - mixture.mean()), 1e-12);
  EXPECT_LT(largest(posterior.noise - noise), 1e-12);
  EXPECT_LT(largest(posterior.responsibilities - mixture.weights()), 1e-12);
}

TEST(GaussianMixture, far_from_every_component_nothing_overflows) {
  const GaussianMixture mixture = GaussianMixture::gmm16();
  const at::Tensor far = normals(6, {4, 256}) * 1e3;
  const auto posterior = mixture.posterior(far, at::full({4}, 0.9999, at::kDouble));
  EXPECT_TRUE(posterior.x0.isfinite().all().item<bool>());
  EXPECT_LT(largest(posterior.responsibilities.sum(1) - 1), 1e-12);
}

TEST(GaussianMixture, keeps_the_shape_of_pictures_and_one_alpha_bar_per_sample) {
  const GaussianMixture mixture = GaussianMixture::gmm16();
  const at::Tensor x = normals(7, {3, 1, 16, 16});
  const at::Tensor alpha_bar = at::tensor({0.1, 0.5, 0.9}, at::kDouble);
  for (const char* objective : {"eps", "x0", "v"}) {
    const at::Tensor together = mixture.optimal_prediction(x, alpha_bar, objective);
    EXPECT_EQ(together.sizes(), x.sizes());
    for (int64_t i = 0; i < 3; ++i) {
      const at::Tensor alone =
          mixture.optimal_prediction(x.slice(0, i, i + 1), alpha_bar.slice(0, i, i + 1), objective);
      EXPECT_LT(largest(together[i] - alone[0]), 1e-12);
    }
  }
}

/// The prediction minimises the expected loss, so moving it in any fixed way costs, on the average
/// over 4000 draws, by far more than the error of that average.
TEST(GaussianMixture, no_perturbed_predictor_beats_the_optimal_loss) {
  const GaussianMixture mixture = small_mixture();
  constexpr int64_t kDraws = 4000;
  const Draws draws = draw(mixture, kDraws);
  for (const double alpha_bar : {0.95, 0.5, 0.05}) {
    const at::Tensor alpha_bars = at::full({kDraws}, alpha_bar, at::kDouble);
    const at::Tensor x_t = diffuse(draws, alpha_bar);
    for (const char* objective : {"eps", "x0", "v"}) {
      const at::Tensor best = mixture.optimal_prediction(x_t, alpha_bars, objective);
      const at::Tensor target = combine_target(draws.x0, draws.noise, alpha_bars, objective);
      const auto loss = [&](const at::Tensor& prediction) {
        return (prediction - target).square().mean().item<double>();
      };
      const double optimal = mixture.optimal_losses(draws.x0, draws.noise, alpha_bars, objective)
                                 .mean()
                                 .item<double>();
      EXPECT_NEAR(optimal, loss(best), 1e-12);
      EXPECT_GT(loss(best * 1.2), optimal) << objective;
      EXPECT_GT(loss(best * 0.8), optimal) << objective;
      EXPECT_GT(loss(best + 0.1), optimal) << objective;
      EXPECT_GT(loss(best.roll(1, 1)), optimal) << objective;
    }
  }
}

/// In the single-component case without factors, x0 ~ N(mu, sigma^2 I), the losses have textbook
/// values: for eps alpha_bar sigma^2 / tau, for x0 sigma^2 (1 - alpha_bar) / tau, with
/// tau = alpha_bar sigma^2 + 1 - alpha_bar.
TEST(GaussianMixture, a_single_gaussian_has_the_textbook_loss) {
  constexpr double kSigma = 0.8;
  constexpr double kAlphaBar = 0.6;
  constexpr int64_t kDraws = 20'000;
  const GaussianMixture mixture(at::full({1}, 1.0, at::kDouble), normals(8, {1, 10}),
                                at::zeros({1, 10, 1}, at::kDouble), kSigma);
  const Draws draws = draw(mixture, kDraws);
  const at::Tensor alpha_bars = at::full({kDraws}, kAlphaBar, at::kDouble);
  const double tau = kAlphaBar * kSigma * kSigma + 1 - kAlphaBar;
  const auto expect_loss = [&](const char* objective, double expected) {
    const at::Tensor losses = mixture.optimal_losses(draws.x0, draws.noise, alpha_bars, objective);
    const double standard_error = losses.std().item<double>() / std::sqrt(kDraws);
    EXPECT_NEAR(losses.mean().item<double>(), expected, 5 * standard_error) << objective;
  };
  expect_loss("eps", kAlphaBar * kSigma * kSigma / tau);
  expect_loss("x0", kSigma * kSigma * (1 - kAlphaBar) / tau);
}

TEST(GaussianMixture, refuses_parts_that_do_not_fit) {
  const at::Tensor weights = at::full({2}, 0.5, at::kDouble);
  EXPECT_ANY_THROW(GaussianMixture(weights, normals(1, {3, 6}), normals(2, {3, 6, 2}), 0.1));
  EXPECT_ANY_THROW(GaussianMixture(weights, normals(1, {2, 6}), normals(2, {2, 5, 2}), 0.1));
  EXPECT_ANY_THROW(GaussianMixture(weights, normals(1, {2, 6}), normals(2, {2, 6, 2}), 0.0));
}

}  // namespace
}  // namespace noisemark::suite
