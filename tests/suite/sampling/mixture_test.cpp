// The samplers with the exact E[x0 | x_t] of a mixture in the place of a network: what they draw
// must be the mixture.

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "suite/sampling/sampler.h"
#include "tests/suite/bayes_denoiser.h"

namespace noisemark::suite {
namespace {

constexpr int64_t kSamples = 1500;

/// Three lines of blurred points in four dimensions, all of them well within [-1, 1], so that no
/// clamp takes part.
GaussianMixture small_mixture() {
  return {at::tensor({0.5, 0.3, 0.2}, at::kDouble),
          at::tensor({0.4, 0.3, -0.2, 0.0, -0.4, 0.1, 0.3, -0.3, 0.0, -0.4, 0.0, 0.4}, at::kDouble)
              .view({3, 4}),
          at::tensor({0.15, 0.0, 0.1, 0.0, 0.0, 0.15, 0.0, 0.1, 0.1, 0.1, 0.0, 0.0}, at::kDouble)
              .view({3, 4, 1}),
          0.08};
}

struct Drawn {
  at::Tensor mean;        ///< [4]
  at::Tensor covariance;  ///< [4, 4]
};

Drawn moments_of(const at::Tensor& samples) {
  const at::Tensor flat = samples.flatten(1).to(at::kDouble);
  const at::Tensor mean = flat.mean(0);
  const at::Tensor centered = flat - mean;
  return {mean, at::matmul(centered.t(), centered) / static_cast<double>(kSamples - 1)};
}

Drawn moments_drawn(const SampleConfig& sample, const std::string& objective, double scale = 1) {
  DiffusionConfig config;
  config.objective = objective;
  const DiffusionProcess process(config, at::kCPU, at::kDouble);
  test::BayesDenoiser model(small_mixture(), process, scale);
  SamplerOptions options;
  options.precision = parse_precision("fp64", at::kCPU);
  options.batch = kSamples;
  return moments_of(draw_samples(model, process, {sample, 1, 2, counter_noise(11)}, options));
}

SampleConfig sampler(const std::string& name, int64_t ddim_steps = 1000, double eta = 0) {
  SampleConfig sample;
  sample.sampler = name;
  sample.count = kSamples;
  sample.ddim_steps = ddim_steps;
  sample.ddim_eta = eta;
  return sample;
}

/// Largest difference in units of what is allowed: five standard errors of a mean and of a
/// covariance (of a Gaussian; this mixture's are smaller, its kurtosis being below 3), and
/// `steps_share` of the standard deviations for the steps' being finite.
double excess(const Drawn& drawn, double steps_share) {
  const GaussianMixture mixture = small_mixture();
  const at::Tensor covariance = mixture.covariance();
  const at::Tensor variance = covariance.diagonal();
  const at::Tensor spread = variance.unsqueeze(1) * variance.unsqueeze(0);
  const at::Tensor of_mean = 5 * (variance / kSamples).sqrt() + steps_share * variance.sqrt();
  const at::Tensor of_covariance =
      5 * ((spread + covariance.square()) / kSamples).sqrt() + steps_share * spread.sqrt();
  const at::Tensor mean_excess = (drawn.mean - mixture.mean()).abs() / of_mean;
  const at::Tensor covariance_excess = (drawn.covariance - covariance).abs() / of_covariance;
  return std::max(mean_excess.max().item<double>(), covariance_excess.max().item<double>());
}

constexpr double kFineSteps = 0.01;  ///< bound for 1000 steps; the error of DDIM is of first order
                                     ///< in one

TEST(MixtureSamples, of_ddpm_have_the_mixtures_mean_and_covariance) {
  for (const char* objective : {"eps", "x0", "v"}) {
    EXPECT_LT(excess(moments_drawn(sampler("ddpm"), objective), kFineSteps), 1) << objective;
  }
}

TEST(MixtureSamples, of_ddpm_with_the_large_variance_have_them_too) {
  SampleConfig large = sampler("ddpm");
  large.ddpm_variance = "large";
  EXPECT_LT(excess(moments_drawn(large, "v"), kFineSteps), 1);
}

TEST(MixtureSamples, of_ddim_have_them_with_and_without_fresh_noise) {
  for (const double eta : {0.0, 1.0}) {
    EXPECT_LT(excess(moments_drawn(sampler("ddim", 1000, eta), "v"), kFineSteps), 1) << eta;
  }
}

TEST(MixtureSamples, of_another_network_have_not) {
  EXPECT_GT(excess(moments_drawn(sampler("ddim", 250), "x0", 0.9), 4 * kFineSteps), 1);
  EXPECT_GT(excess(moments_drawn(sampler("ddim", 3), "x0"), kFineSteps), 1)
      << "nor those of three steps";
}

}  // namespace
}  // namespace noisemark::suite
