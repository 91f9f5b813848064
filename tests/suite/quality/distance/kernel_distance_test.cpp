#include "suite/quality/distance/kernel_distance.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/suite/io/scratch.h"
#include "tests/suite/quality/distance/gaussians.h"

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
  EXPECT_EQ(message, "kernel distance: samples: 50 and 50 (at least 1000, the size of a subset)");
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

}  // namespace
}  // namespace noisemark::suite::test
