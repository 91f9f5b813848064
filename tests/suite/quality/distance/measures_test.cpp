#include "suite/quality/distance/measures.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "tests/suite/quality/distance/gaussians.h"
#include "tests/suite/scratch.h"

namespace noisemark::suite::test {
namespace {

/// k(x, y) = (x y + 1)^3 in one dimension: k(1, 2) = 27, k(0, y) = 1.
TEST(KernelDistance, is_the_unbiased_estimate_of_four_numbers) {
  const at::Tensor a = at::tensor({1.0, 2.0}, doubles()).view({2, 1});
  const at::Tensor b = at::tensor({0.0, 0.0}, doubles()).view({2, 1});
  EXPECT_DOUBLE_EQ(unbiased_discrepancy(a, b), (54 + 2) / 2.0 - 2 * 4 / 4.0);
}

TEST(KernelDistance, over_one_subset_of_everything_is_the_estimate_itself) {
  const at::Tensor a = normals(1, 40, 6);
  const at::Tensor b = normals(2, 40, 6) + 0.3;
  KernelDistanceOptions options;
  options.subsets = 1;
  options.subset_size = 40;
  const KernelDistance found = kernel_distance(a, b, options);
  EXPECT_NEAR(found.mean, unbiased_discrepancy(a, b), 1e-12);
  EXPECT_EQ(found.standard_deviation, 0);
  EXPECT_FALSE(found.standard_error.has_value());
}

TEST(KernelDistance, is_about_0_for_one_distribution_and_not_for_two) {
  KernelDistanceOptions options;
  options.subsets = 50;
  options.subset_size = 100;
  const at::Tensor a = normals(3, 1000, 8);
  const KernelDistance same = kernel_distance(a, normals(4, 1000, 8), options);
  const KernelDistance other = kernel_distance(a, normals(4, 1000, 8) + 0.3, options);
  ASSERT_TRUE(same.standard_error && other.standard_error);
  EXPECT_LT(std::abs(same.mean), 4 * *same.standard_error);
  EXPECT_GT(other.mean, 8 * *other.standard_error);
}

/// Forty pairs of sets of a known distance: the error that one pair states must be about what the
/// forty differ by. A deviation over forty is itself uncertain by 11 %, and the stated error is
/// meant to be rather too large; so between 0.6 and 3 times.
TEST(KernelDistance, states_an_error_of_the_right_size) {
  constexpr int kPairs = 40;
  KernelDistanceOptions options;
  options.subsets = 30;
  options.subset_size = 50;
  double sum = 0;
  double squares = 0;
  double stated = 0;
  for (uint64_t pair = 0; pair < kPairs; ++pair) {
    const KernelDistance found = kernel_distance(normals(100 + 2 * pair, 500, 4),
                                                 normals(101 + 2 * pair, 500, 4) + 0.25, options);
    sum += found.mean / kPairs;
    squares += found.mean * found.mean / kPairs;
    stated += *found.standard_error / kPairs;
  }
  const double deviation = std::sqrt((squares - sum * sum) * kPairs / (kPairs - 1));
  EXPECT_GT(stated, 0.6 * deviation);
  EXPECT_LT(stated, 3 * deviation);
}

TEST(KernelDistance, depends_on_the_draws_and_on_nothing_else) {
  const at::Tensor a = normals(5, 200, 3);
  const at::Tensor b = normals(6, 300, 3);
  KernelDistanceOptions options;
  options.subsets = 5;
  options.subset_size = 20;
  const double first = kernel_distance(a, b, options).mean;
  EXPECT_EQ(kernel_distance(a, b, options).mean, first);
  options.draw = counter_draws(1);
  EXPECT_NE(kernel_distance(a, b, options).mean, first);
}

TEST(KernelDistance, refuses_too_few_samples_and_sets_that_do_not_fit) {
  const at::Tensor a = normals(1, 50, 3);
  const auto [code, message] = outcome([&] { (void)kernel_distance(a, a); });
  EXPECT_EQ(code, ExitCode::kBadInput);
  EXPECT_EQ(message,
            "kernel distance: samples: 50 and 50 (at least 1000, the size of a subset; or "
            "--subset-size 50)");
  at::Tensor nan = a.clone();
  nan[3][2] = std::numeric_limits<double>::quiet_NaN();
  KernelDistanceOptions options;
  options.subset_size = 10;
  for (const at::Tensor& b : {normals(1, 50, 4), nan}) {
    EXPECT_EQ(outcome([&] { (void)kernel_distance(a, b, options); }).first, ExitCode::kBadInput);
  }
  options.subset_size = 1;
  EXPECT_EQ(outcome([&] { (void)kernel_distance(a, a, options); }).first, ExitCode::kBadInput);
}

TEST(PrecisionRecall, of_a_set_and_itself_are_1) {
  const at::Tensor x = normals(1, 60, 5);
  const PrecisionRecall found = precision_recall(x, x);
  EXPECT_EQ(found.precision_frac, 1);
  EXPECT_EQ(found.recall_frac, 1);
  EXPECT_EQ(found.neighbours, 3);
}

TEST(PrecisionRecall, of_sets_that_are_far_apart_are_0) {
  const PrecisionRecall found = precision_recall(normals(1, 60, 5), normals(2, 40, 5) + 100);
  EXPECT_EQ(found.precision_frac, 0);
  EXPECT_EQ(found.recall_frac, 0);
}

/// Two clusters of real samples, of which one was generated: all that was is real, and half of what
/// is real was.
TEST(PrecisionRecall, tell_a_lost_mode_from_a_wrong_one) {
  const at::Tensor left = normals(1, 40, 3);
  const at::Tensor both = at::cat({left, normals(2, 40, 3) + 1000});
  const PrecisionRecall lost = precision_recall(both, left);
  EXPECT_EQ(lost.precision_frac, 1);
  EXPECT_EQ(lost.recall_frac, 0.5);
  const PrecisionRecall invented = precision_recall(left, both);
  EXPECT_EQ(invented.precision_frac, 0.5);
  EXPECT_EQ(invented.recall_frac, 1);
}

/// Every ball on a line 0, 1, 2, 3, 4, ... with k = 1 reaches 1 to either side, its end included;
/// samples half way lie in balls, one at -1.5 does not.
TEST(PrecisionRecall, follow_from_the_nearest_neighbours_on_a_line) {
  const at::Tensor real = at::linspace(0, 9, 10, doubles()).view({10, 1});
  const at::Tensor generated = at::tensor({0.5, 3.5, -1.0, -1.5}, doubles()).view({4, 1});
  const PrecisionRecall found = precision_recall(real, generated, 1);
  EXPECT_EQ(found.precision_frac, 0.75);
  // 0.5 reaches 1.5 far and covers 0 to 2; 3.5 reaches 3 far and covers 1 to 6; the others none.
  EXPECT_EQ(found.recall_frac, 0.7);
}

TEST(PrecisionRecall, refuse_sets_of_at_most_k_samples) {
  const auto [code, message] =
      outcome([] { (void)precision_recall(normals(1, 10, 2), normals(1, 3, 2)); });
  EXPECT_EQ(code, ExitCode::kBadInput);
  EXPECT_EQ(message, "precision and recall: samples: 10 and 3 (more than k = 3)");
  EXPECT_EQ(outcome([] { (void)precision_recall(normals(1, 10, 2), normals(1, 10, 3)); }).first,
            ExitCode::kBadInput);
  EXPECT_EQ(outcome([] { (void)precision_recall(normals(1, 10, 2), normals(1, 10, 2), 0); }).first,
            ExitCode::kBadInput);
}

TEST(InceptionScore, of_logits_that_tell_nothing_is_1) {
  const InceptionScore found = inception_score(at::zeros({100, 10}, doubles()));
  EXPECT_NEAR(found.mean, 1, 1e-12);
  EXPECT_NEAR(found.standard_deviation, 0, 1e-12);
  EXPECT_EQ(found.splits, 10);
}

/// Certain of its class, and every class equally often: as many as there are classes. Logits so
/// large that the other probabilities are 0.
TEST(InceptionScore, of_certain_and_even_logits_is_the_number_of_classes) {
  const at::Tensor logits = (at::eye(8, doubles()) * 5000).repeat({20, 1});
  EXPECT_NEAR(inception_score(logits, 4).mean, 8, 1e-9);
  EXPECT_NEAR(
      inception_score((at::eye(8, doubles()) * 5000).slice(0, 0, 1).repeat({20, 1}), 4).mean, 1,
      1e-9);
}

TEST(InceptionScore, deals_samples_to_the_splits_in_the_given_order) {
  // Two classes, one after the other: two splits see one class each, dealt alternately both.
  const at::Tensor logits = (at::eye(2, doubles()) * 100).repeat_interleave(10, 0);
  EXPECT_NEAR(inception_score(logits, 2).mean, 1, 1e-9);
  std::vector<int64_t> alternately;
  for (int64_t i = 0; i < 10; ++i) alternately.insert(alternately.end(), {i, 10 + i});
  EXPECT_NEAR(inception_score(logits, 2, alternately).mean, 2, 1e-9);
}

TEST(InceptionScore, takes_parts_of_nearly_one_size) {
  const InceptionScore found = inception_score(normals(1, 23, 5), 4);
  double mean = 0;
  for (const auto& [begin, end] :
       {std::pair(0, 5), std::pair(5, 11), std::pair(11, 17), std::pair(17, 23)}) {
    mean += inception_score(normals(1, 23, 5).slice(0, begin, end), 1).mean / 4;
  }
  EXPECT_NEAR(found.mean, mean, 1e-12);
}

TEST(InceptionScore, refuses_fewer_samples_than_splits) {
  const auto [code, message] = outcome([] { (void)inception_score(normals(1, 9, 5)); });
  EXPECT_EQ(code, ExitCode::kBadInput);
  EXPECT_NE(message.find("10 of 9 samples"), std::string::npos) << message;
}

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
