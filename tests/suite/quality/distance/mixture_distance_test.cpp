#include "suite/quality/distance/mixture_distance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "tests/suite/io/scratch.h"
#include "tests/suite/quality/distance/gaussians.h"

namespace noisemark::suite::test {
namespace {

// The 0.999 quantile of chi-square with 7 degrees of freedom (Abramowitz & Stegun, table 26.8).
constexpr double kChiSquare7 = 24.32;

/// Draws of the mixture; those of components from `components` on are left out.
at::Tensor samples(const GaussianMixture& mixture, int64_t n, int64_t components) {
  const at::Tensor out = at::zeros({n, 1, 16, 16}, at::TensorOptions().dtype(at::kFloat));
  auto* values = out.mutable_data_ptr<float>();
  uint64_t draw = 0;
  for (int64_t i = 0; i < n;) {
    const CounterRng rng(1, Stream::kData, 0, draw++);
    if (mixture.sample(rng, std::span(values + i * 256, 256)) < components) ++i;
  }
  return out;
}

TEST(MixtureDistance, of_the_mixtures_own_draws_is_that_of_its_floor) {
  const GaussianMixture mixture = GaussianMixture::gmm16();
  const MixtureDistance found = mixture_distance(samples(mixture, 4096, 8), mixture);
  EXPECT_EQ(found.samples, 4096);
  EXPECT_GT(found.floor_mean, 0);
  EXPECT_GE(found.floor_largest, found.floor_mean);
  // Six sets of one kind; few directions hold most of the variance, so they differ by some tens of
  // per cent.
  EXPECT_LT(found.frechet.value, 2 * found.floor_largest);
  EXPECT_GT(found.frechet.value, 0.3 * found.floor_mean);
  EXPECT_LT(found.component_chi_square, kChiSquare7);
  EXPECT_NEAR(
      std::accumulate(found.component_share_frac.begin(), found.component_share_frac.end(), 0.0), 1,
      1e-12);
}

TEST(MixtureDistance, shows_a_lost_component_a_wrong_contrast_and_noise_that_stayed) {
  const GaussianMixture mixture = GaussianMixture::gmm16();
  const at::Tensor all = samples(mixture, 4096, 8);
  MixtureDistanceOptions options;
  options.floor_sets = 2;
  const double floor = mixture_distance(all, mixture, options).floor_largest;
  options.floor_sets = 0;
  const MixtureDistance lost = mixture_distance(samples(mixture, 4096, 7), mixture, options);
  EXPECT_GT(lost.frechet.value, 3 * floor);
  EXPECT_GT(lost.component_chi_square, 10 * kChiSquare7);
  EXPECT_EQ(lost.component_share_frac.back(), 0);
  EXPECT_GT(mixture_distance(all * 1.1, mixture, options).frechet.value, 3 * floor);
  const at::Tensor noise = normals(9, 4096, 256).view(all.sizes()).to(at::kFloat) * 0.05;
  EXPECT_GT(mixture_distance(all + noise, mixture, options).frechet.value, 1.5 * floor);
}

TEST(MixtureDistance, takes_fewer_samples_than_values) {
  const GaussianMixture mixture = GaussianMixture::gmm16();
  const MixtureDistance found = mixture_distance(samples(mixture, 64, 8), mixture);
  EXPECT_EQ(found.frechet.method, "features");
  EXPECT_LT(found.frechet.value, 2 * found.floor_largest);
  EXPECT_GT(found.frechet.value, 0.3 * found.floor_mean);
}

TEST(MixtureDistance, of_its_exact_moments_is_0) {
  const GaussianMixture mixture = GaussianMixture::gmm16();
  const Gaussian exact = exact_gaussian(mixture);
  const FrechetDistance found = frechet_distance(exact, exact);
  EXPECT_LE(found.value, 2e-8 * found.trace_term);
}

TEST(MixtureDistance, refuses_other_pictures) {
  const GaussianMixture mixture = GaussianMixture::gmm16();
  at::Tensor nan = samples(mixture, 4, 8);
  nan[2][0][3][3] = std::numeric_limits<float>::quiet_NaN();
  for (const at::Tensor& bad : {normals(1, 10, 255), normals(1, 1, 256), nan}) {
    EXPECT_EQ(outcome([&] { (void)mixture_distance(bad, mixture); }).first, ExitCode::kBadInput);
  }
}

}  // namespace
}  // namespace noisemark::suite::test
