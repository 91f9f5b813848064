#include "suite/quality/distance/frechet.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/suite/quality/distance/gaussians.h"
#include "tests/suite/scratch.h"

namespace noisemark::suite::test {
namespace {

/// Two passes over all of it, as numpy.cov does.
Gaussian directly(const at::Tensor& x) {
  const at::Tensor centered = x - x.mean(0);
  return {x.mean(0), at::matmul(centered.t(), centered) / static_cast<double>(x.size(0) - 1),
          x.size(0)};
}

Gaussian of(const at::Tensor& x) {
  Moments moments(x.size(1));
  moments.add(x);
  return moments.gaussian();
}

/// Both are exact but for the rounding of sums of N products: N * 2^-53 of the largest.
void expect_same(const Gaussian& a, const Gaussian& b, double scale = 1) {
  EXPECT_EQ(a.samples, b.samples);
  const double bound = 1e-16 * static_cast<double>(a.samples) * scale;
  EXPECT_LE(largest(a.mean - b.mean), bound);
  EXPECT_LE(largest(a.covariance - b.covariance), bound);
}

TEST(Moments, are_the_mean_and_the_covariance_over_n_minus_1) {
  const at::Tensor x = normals(1, 500, 7);
  expect_same(of(x), directly(x), 10);
  EXPECT_TRUE(of(x).covariance.equal(of(x).covariance.t()));
}

TEST(Moments, of_more_features_than_a_block_are_symmetric_and_right) {
  const at::Tensor x = normals(1, 300, 600);
  expect_same(of(x), directly(x), 10);
  EXPECT_TRUE(of(x).covariance.equal(of(x).covariance.t()));
}

TEST(Moments, do_not_depend_on_the_batches) {
  const at::Tensor x = normals(2, 301, 5) + 3;
  Moments moments(5);
  for (int64_t begin = 0; begin < 301; begin += 17) {
    moments.add(x.slice(0, begin, std::min<int64_t>(begin + 17, 301)));
  }
  moments.add(x.slice(0, 0, 0));
  expect_same(moments.gaussian(), directly(x), 30);
}

TEST(Moments, of_one_at_a_time_are_those_of_all) {
  const at::Tensor x = normals(3, 60, 4);
  Moments moments(4);
  for (int64_t i = 0; i < 60; ++i) moments.add(x.slice(0, i, i + 1));
  expect_same(moments.gaussian(), directly(x), 30);
}

TEST(Moments, merge_as_if_all_had_come_to_one) {
  const at::Tensor x = normals(4, 200, 6) * 2 + 1;
  Moments a(6);
  Moments b(6);
  const Moments none(6);
  a.add(x.slice(0, 0, 30));
  b.add(x.slice(0, 30, 200));
  a.merge(none);
  a.merge(b);
  expect_same(a.gaussian(), directly(x), 40);
  Moments empty(6);
  empty.merge(a);
  expect_same(empty.gaussian(), directly(x), 40);
}

/// x^2 has 24 digits at an offset of 1e12, of which 16 are kept: sums of squares would keep none of
/// a variance of 1. What remains is that the means of the batches are rounded to 1e-4, and are
/// joined by products of their differences, which are some 0.1.
TEST(Moments, keep_the_digits_of_a_variance_beside_a_large_offset) {
  const at::Tensor x = normals(5, 400, 3) + 1e12;
  Moments moments(3);
  for (int64_t begin = 0; begin < 400; begin += 100) moments.add(x.slice(0, begin, begin + 100));
  EXPECT_LE(largest(moments.gaussian().covariance - directly(x).covariance), 1e-4);
  EXPECT_NEAR(number(moments.gaussian().covariance.diagonal().mean()), 1.0, 0.1);
}

TEST(Moments, add_up_narrow_types_in_float64) {
  const at::Tensor x = normals(6, 300, 4).to(at::kFloat);
  expect_same(of(x), directly(x.to(at::kDouble)), 10);
  expect_same(of(x.to(at::kHalf)), directly(x.to(at::kHalf).to(at::kDouble)), 10);
}

TEST(Moments, name_the_row_of_the_first_value_that_is_not_finite) {
  at::Tensor x = normals(7, 20, 3);
  x[12][1] = std::numeric_limits<double>::quiet_NaN();
  x[15][0] = std::numeric_limits<double>::infinity();
  Moments moments(3);
  moments.add(normals(8, 100, 3));
  const auto [code, message] = outcome([&] { moments.add(x); });
  EXPECT_EQ(code, ExitCode::kBadInput);
  EXPECT_NE(message.find("2 of 20 rows hold NaN or infinity, the first is row 112"),
            std::string::npos)
      << message;
  EXPECT_EQ(moments.samples(), 100);
}

TEST(Moments, take_values_whose_sum_is_too_large_for_their_type) {
  const at::Tensor x = at::full({4, 2}, 3e38, at::kFloat);
  EXPECT_EQ(outcome([&] { (void)of(x); }).first, ExitCode::kPass);
}

TEST(Moments, refuse_other_shapes_types_and_too_few_samples) {
  Moments moments(3);
  for (const at::Tensor& bad :
       {normals(1, 4, 2), normals(1, 4, 3).flatten(), normals(1, 4, 3).to(at::kLong)}) {
    EXPECT_EQ(outcome([&] { moments.add(bad); }).first, ExitCode::kBadInput);
  }
  EXPECT_EQ(outcome([&] { moments.merge(Moments(4)); }).first, ExitCode::kBadInput);
  moments.add(normals(1, 1, 3));
  const auto [code, message] = outcome([&] { (void)moments.gaussian(); });
  EXPECT_EQ(code, ExitCode::kBadInput);
  EXPECT_EQ(message, "moments: samples: 1 (at least 2)");
}

TEST(CheckedGaussian, refuses_what_is_no_mean_and_covariance) {
  const at::Tensor mean = at::zeros({3}, doubles());
  const at::Tensor good = covariance_of(rotation(1, 3), spectrum(3, 1));
  EXPECT_TRUE(checked_gaussian(mean, good.to(at::kFloat), "a").covariance.scalar_type() ==
              at::kDouble);
  at::Tensor skew = good.clone();
  skew[0][1] += 0.1;
  at::Tensor negative = good.clone();
  negative[2][2] = -1;
  // Its variances are all positive.
  const at::Tensor turned = rotation(2, 3);
  const at::Tensor impossible =
      turned.mm(at::diag(at::tensor({9.0, 9.0, -3.0}, doubles()))).mm(turned.t());
  at::Tensor nan = good.clone();
  nan[1][1] = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [covariance, words] :
       {std::pair(skew, "not symmetric"), std::pair(negative, "a negative variance"),
        std::pair(impossible, "an eigenvalue of -3"), std::pair(nan, "NaN or infinity"),
        std::pair(good.slice(0, 0, 2), "[2, 3] ([3, 3])"), std::pair(good[0], "[3] ([3, 3])")}) {
    const auto [code, message] =
        outcome([&, sigma = covariance] { (void)checked_gaussian(mean, sigma, "stats.npz"); });
    EXPECT_EQ(code, ExitCode::kBadInput);
    EXPECT_NE(message.find("stats.npz: "), std::string::npos) << message;
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }
  EXPECT_EQ(outcome([&] { (void)checked_gaussian(good, good, "a"); }).first, ExitCode::kBadInput);
  // Their distance would leave the numbers of float64.
  EXPECT_EQ(outcome([&] { (void)checked_gaussian(mean + 1e41, good, "a"); }).second,
            "a: mean: values as large as 1e+41 (at most 1e+40)");
  EXPECT_EQ(outcome([&] { (void)checked_gaussian(mean, 1e100 * good, "a"); }).first,
            ExitCode::kBadInput);
}

TEST(CheckedGaussian, allows_a_negative_variance_of_what_rounding_makes_and_no_more) {
  const at::Tensor mean = at::zeros({16}, doubles());
  const at::Tensor turned = rotation(3, 16);
  const auto code_of = [&](double last, at::ScalarType type) {
    at::Tensor variances = at::full({16}, 1e6, doubles());
    variances[15] = last;
    const at::Tensor sigma = turned.mm(at::diag(variances)).mm(turned.t());
    return outcome([&] { (void)checked_gaussian(mean, ((sigma + sigma.t()) / 2).to(type), "a"); })
        .first;
  };
  EXPECT_EQ(code_of(-3, at::kDouble), ExitCode::kBadInput);
  // 16 * 2^-23 of 1e6 is 1.9; a float32 of 1e6 is rounded by up to 0.03, and 1e-5 of it is 10.
  EXPECT_EQ(code_of(-1, at::kDouble), ExitCode::kPass);
  EXPECT_EQ(code_of(-3, at::kFloat), ExitCode::kPass);
  EXPECT_EQ(code_of(-30, at::kFloat), ExitCode::kBadInput);
}

Gaussian gaussian(const at::Tensor& mean, const at::Tensor& covariance) {
  return {mean.to(at::kDouble), covariance.to(at::kDouble), 0};
}

Gaussian centered(const at::Tensor& covariance) {
  return gaussian(at::zeros({covariance.size(0)}, doubles()), covariance);
}

/// Covariances with the same eigenvectors commute, so Tr (S1 S2)^(1/2) = sum sqrt(l1 l2).
double commuting(const at::Tensor& a, const at::Tensor& b) {
  return number((a.sqrt() - b.sqrt()).square().sum());
}

/// frechet.h bounds the fast way by 1e-7 of the traces; found is far less. The others are held to
/// rounding.
void expect_near(const FrechetDistance& found, double expected) {
  const double bound = found.method == "cholesky" ? 2e-8 : 1e-11;
  EXPECT_NEAR(found.value, expected, bound * (found.trace_term + found.mean_term)) << found.method;
}

TEST(Frechet, of_one_dimension_is_the_textbooks) {
  const auto one = [](double mean, double deviation) {
    return gaussian(at::full({1}, mean), at::full({1, 1}, deviation * deviation, doubles()));
  };
  expect_near(frechet_distance(one(1, 2), one(4, 6)), 3 * 3 + 4 * 4);
  expect_near(frechet_distance(one(1, 0), one(4, 6)), 3 * 3 + 6 * 6);
  expect_near(frechet_distance(one(1, 0), one(1, 0)), 0);
}

/// Tr (S1 S2)^(1/2) = sqrt(Tr S1 S2 + 2 sqrt(det S1 det S2)) for 2 x 2.
TEST(Frechet, of_two_dimensions_has_its_closed_form) {
  const at::Tensor a = at::tensor({2.0, 0.5, 0.5, 1.0}, doubles()).view({2, 2});
  const at::Tensor b = at::tensor({1.0, -0.7, -0.7, 3.0}, doubles()).view({2, 2});
  const double product = number(at::matmul(a, b).trace());
  const double determinants = (2 * 1 - 0.25) * (1 * 3 - 0.49);
  const double cross = std::sqrt(product + 2 * std::sqrt(determinants));
  expect_near(frechet_distance(centered(a), centered(b)), 7 - 2 * cross);
}

TEST(Frechet, of_diagonal_covariances_is_a_sum) {
  const at::Tensor a = at::linspace(1, 9, 20, doubles());
  const at::Tensor b = at::linspace(5, 2, 20, doubles());
  const FrechetDistance found =
      frechet_distance(gaussian(a, a.diag()), gaussian(a + 0.5, b.diag()));
  expect_near(found, 20 * 0.25 + commuting(a, b));
  EXPECT_NEAR(found.mean_term, 20 * 0.25, 1e-12);
  EXPECT_NEAR(found.trace_term, number((a + b).sum()), 1e-12);
}

TEST(Frechet, of_a_set_and_itself_is_0) {
  const at::Tensor x = normals(1, 400, 30) * spectrum(30, 3);
  Moments moments(30);
  moments.add(x);
  expect_near(frechet_distance(moments.gaussian(), moments.gaussian()), 0);
  expect_near(frechet_distance(x, x), 0);
  const at::Tensor few = x.slice(0, 0, 12);
  expect_near(frechet_distance(few, few), 0);
}

/// Spectra as wide as those of real features and far wider, full and not full rank, against the
/// exact value: whichever way is taken, its error is bounded.
TEST(Frechet, is_right_for_every_spectrum) {
  constexpr int64_t kDimension = 96;
  const at::Tensor q = rotation(3, kDimension);
  for (const double decades : {0.5, 3.0, 6.0, 9.0, 12.0}) {
    for (const int64_t rank : {kDimension, kDimension / 2, int64_t{1}}) {
      at::Tensor a = spectrum(kDimension, decades);
      a.slice(0, rank, kDimension).zero_();
      const at::Tensor b = spectrum(kDimension, decades / 2).flip(0) * 3;
      const FrechetDistance found =
          frechet_distance(centered(covariance_of(q, a)), centered(covariance_of(q, b)));
      SCOPED_TRACE(::testing::Message() << decades << " decades, rank " << rank);
      EXPECT_NEAR(found.value, commuting(a, b), 2e-8 * found.trace_term) << found.method;
    }
  }
}

/// Products and factors go by blocks of 256: more than two of them, the last one short. Twelve
/// decades have a Cholesky factor, but eigenvalues whose roots cannot be trusted.
TEST(Frechet, is_right_across_the_blocks_of_a_large_matrix) {
  constexpr int64_t kDimension = 600;
  const at::Tensor q = rotation(6, kDimension);
  for (const auto& [decades, method] : {std::pair(3.0, "cholesky"), std::pair(12.0, "factors")}) {
    const at::Tensor a = spectrum(kDimension, decades);
    const FrechetDistance found =
        frechet_distance(centered(covariance_of(q, a)), centered(covariance_of(q, a * 3)));
    EXPECT_EQ(found.method, method);
    EXPECT_NEAR(found.value, commuting(a, a * 3), 2e-8 * found.trace_term) << found.method;
  }
}

TEST(Frechet, of_two_rank_deficient_covariances_is_exact_to_rounding) {
  const at::Tensor q = rotation(4, 80);
  at::Tensor a = at::linspace(1, 3, 80, doubles());
  at::Tensor b = at::linspace(4, 1, 80, doubles());
  a.slice(0, 40, 80).zero_();
  b.slice(0, 0, 20).zero_();
  const FrechetDistance found =
      frechet_distance(centered(covariance_of(q, a)), centered(covariance_of(q, b)));
  EXPECT_EQ(found.method, "factors");
  expect_near(found, commuting(a, b));
}

TEST(Frechet, takes_the_fast_way_where_it_may_and_leaves_it_where_it_may_not) {
  const at::Tensor q = rotation(5, 50);
  const auto method = [&](const at::Tensor& values) {
    const Gaussian g = centered(covariance_of(q, values));
    return frechet_distance(g, g).method;
  };
  EXPECT_EQ(method(spectrum(50, 3)), "cholesky");
  EXPECT_EQ(method(spectrum(50, 14)), "factors");
}

TEST(Frechet, is_the_same_both_ways_round) {
  const Gaussian a =
      gaussian(normals(1, 1, 25)[0], covariance_of(rotation(1, 25), spectrum(25, 4)));
  const Gaussian b =
      gaussian(normals(2, 1, 25)[0], covariance_of(rotation(2, 25), spectrum(25, 2)));
  EXPECT_NEAR(frechet_distance(a, b).value, frechet_distance(b, a).value, 1e-7);
}

/// A set that is turned, stretched and moved has moments that follow from its own.
TEST(Frechet, of_few_features_follows_from_how_they_were_moved) {
  const at::Tensor x = normals(6, 20, 64);
  const at::Tensor centred = x - x.mean(0);
  const double trace = number(centred.square().sum()) / 19;
  const FrechetDistance moved = frechet_distance(x, x + 2);
  EXPECT_EQ(moved.method, "features");
  expect_near(moved, 64 * 4.0);
  expect_near(frechet_distance(x, centred * 3 + x.mean(0)), trace * 4);
  // Half of the features have no variance in one set, the other half none in the other.
  at::Tensor left = x.clone();
  left.slice(1, 0, 32).zero_();
  at::Tensor right = x.clone();
  right.slice(1, 32, 64).zero_();
  const FrechetDistance apart = frechet_distance(left - left.mean(0), right - right.mean(0));
  expect_near(apart, trace);
}

/// Three ways to the same number: features, their moments, and one of each.
TEST(Frechet, of_few_features_is_that_of_their_moments) {
  const at::Tensor few = normals(7, 30, 40);
  const at::Tensor fewer = normals(8, 11, 40) * 1.5 + 0.2;
  const at::Tensor many = normals(9, 90, 40) * 0.7;
  const auto of = [](const at::Tensor& x) {
    Moments moments(x.size(1));
    moments.add(x);
    return moments.gaussian();
  };
  for (const auto& [a, b] : {std::pair(few, fewer), std::pair(few, many), std::pair(many, fewer),
                             std::pair(many, many * 2)}) {
    const double by_moments = frechet_distance(of(a), of(b)).value;
    const FrechetDistance by_features = frechet_distance(a, b);
    EXPECT_NEAR(by_features.value, by_moments, 2e-8 * by_features.trace_term);
    EXPECT_NEAR(frechet_distance(a, of(b)).value, by_moments, 2e-8 * by_features.trace_term);
  }
}

TEST(Frechet, of_two_samples_needs_no_more) {
  const at::Tensor a = at::tensor({0.0, 0.0, 2.0, 0.0}, doubles()).view({2, 2});  // variance 2 in x
  const at::Tensor b = at::tensor({0.0, 0.0, 0.0, 4.0}, doubles()).view({2, 2});  // variance 8 in y
  expect_near(frechet_distance(a, b), 1 + 4 + 2 + 8);
}

TEST(Frechet, takes_narrow_types_and_leaves_the_arguments_alone) {
  // Multiples of 2^-6, so that adding 1 rounds nothing in float32.
  const at::Tensor x = ((normals(1, 10, 12) * 64).round() / 64).to(at::kFloat);
  const at::Tensor copy = x.clone();
  expect_near(frechet_distance(x, x + 1), 12);
  EXPECT_TRUE(x.equal(copy));
}

TEST(Frechet, takes_all_that_float32_can_hold_and_refuses_what_would_overflow) {
  const at::Tensor features = at::eye(5, doubles()).repeat({2, 1});
  const auto with = [&](double scale) {
    return outcome([&, scaled = features * scale] {
      const FrechetDistance distance = frechet_distance(scaled, features);
      EXPECT_TRUE(std::isfinite(distance.value));
    });
  };
  EXPECT_EQ(with(std::numeric_limits<float>::max()).second, "");
  EXPECT_EQ(with(1e200).second,
            "Fréchet distance: features: values as large as 1e+200 (at most 1e+40)");
}

TEST(Frechet, refuses_what_cannot_be_compared) {
  const at::Tensor x = normals(1, 10, 4);
  at::Tensor nan = x.clone();
  nan[3][2] = std::numeric_limits<double>::quiet_NaN();
  const Gaussian five = centered(at::ones({5}, doubles()).diag());
  for (const auto& [code, message] :
       {outcome([&] { (void)frechet_distance(x, normals(1, 10, 5)); }),
        outcome([&] { (void)frechet_distance(x, five); }), outcome([&] {
          (void)frechet_distance(centered(at::ones({4}, doubles()).diag()), five);
        })}) {
    EXPECT_EQ(code, ExitCode::kBadInput);
    EXPECT_EQ(message,
              "Fréchet distance: features: 4 and 5 per sample (the same number in both sets)");
  }
  EXPECT_EQ(outcome([&] { (void)frechet_distance(x, nan); }).first, ExitCode::kBadInput);
  const auto [code, message] = outcome([&] { (void)frechet_distance(x, x.slice(0, 0, 1)); });
  EXPECT_EQ(code, ExitCode::kBadInput);
  EXPECT_EQ(message, "Fréchet distance: samples: 1 (at least 2)");
}

}  // namespace

}  // namespace noisemark::suite::test
