#include "suite/quality/distance/moments.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/suite/io/scratch.h"
#include "tests/suite/quality/distance/gaussians.h"

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
  at::Tensor nan = good.clone();
  nan[1][1] = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [covariance, words] :
       {std::pair(skew, "not symmetric"), std::pair(negative, "a negative variance"),
        std::pair(nan, "NaN or infinity"), std::pair(good.slice(0, 0, 2), "[2, 3] ([3, 3])"),
        std::pair(good[0], "[3] ([3, 3])")}) {
    const auto [code, message] =
        outcome([&, sigma = covariance] { (void)checked_gaussian(mean, sigma, "stats.npz"); });
    EXPECT_EQ(code, ExitCode::kBadInput);
    EXPECT_NE(message.find("stats.npz: "), std::string::npos) << message;
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }
  EXPECT_EQ(outcome([&] { (void)checked_gaussian(good, good, "a"); }).first, ExitCode::kBadInput);
}

}  // namespace
}  // namespace noisemark::suite::test
