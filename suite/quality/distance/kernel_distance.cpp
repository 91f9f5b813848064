#include "suite/quality/distance/kernel_distance.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "reports/error.h"
#include "suite/quality/distance/moments.h"

namespace noisemark::suite {
namespace {

constexpr const char* kWhere = "kernel distance";

/// (x.y / d + 1)^3 for every pair of rows.
at::Tensor kernel(const at::Tensor& x, const at::Tensor& y) {
  at::Tensor inner = at::matmul(x, y.t());
  inner *= 1.0 / static_cast<double>(x.size(1));
  inner += 1.0;
  const at::Tensor square = inner.square();
  return inner.mul_(square);
}

double total(const at::Tensor& values) {
  return values.sum().item<double>();
}

double total_off_diagonal(const at::Tensor& values) {
  return total(values) - total(values.diagonal());
}

at::Tensor rows(const at::Tensor& features, const std::vector<int64_t>& numbers) {
  const at::Tensor index =
      at::empty({static_cast<int64_t>(numbers.size())}, at::TensorOptions().dtype(at::kLong));
  std::copy(numbers.begin(), numbers.end(), index.mutable_data_ptr<int64_t>());
  return features.index_select(0, index.to(features.device())).to(at::kDouble);
}

void check(const at::Tensor& a, const at::Tensor& b, const KernelDistanceOptions& options) {
  require_finite_features(a, kWhere);
  require_finite_features(b, kWhere);
  if (a.size(1) != b.size(1)) {
    throw bad_input(kWhere, "features", fmt::format("{} and {} per sample", a.size(1), b.size(1)),
                    "the same number in both sets");
  }
  if (options.subsets < 1 || options.subset_size < 2) {
    throw bad_input(kWhere, "subsets",
                    fmt::format("{} of {}", options.subsets, options.subset_size),
                    "at least 1 of at least 2");
  }
  const int64_t smaller = std::min(a.size(0), b.size(0));
  if (smaller < options.subset_size) {
    throw bad_input(kWhere, "samples", fmt::format("{} and {}", a.size(0), b.size(0)),
                    fmt::format("at least {}, the size of a subset", options.subset_size));
  }
}

}  // namespace

double unbiased_discrepancy(const at::Tensor& a, const at::Tensor& b) {
  const auto m = static_cast<double>(a.size(0));
  const double within = total_off_diagonal(kernel(a, a)) + total_off_diagonal(kernel(b, b));
  return within / (m * (m - 1)) - 2 * total(kernel(a, b)) / (m * m);
}

KernelDistance kernel_distance(const at::Tensor& a, const at::Tensor& b,
                               const KernelDistanceOptions& options) {
  check(a, b, options);
  const at::NoGradGuard no_grad;
  const at::Tensor second = b.to(a.device());
  std::vector<double> values;
  for (int64_t i = 0; i < options.subsets; ++i) {
    const auto of_a = options.draw(i, 0, a.size(0), options.subset_size);
    const auto of_b = options.draw(i, 1, b.size(0), options.subset_size);
    values.push_back(unbiased_discrepancy(rows(a, of_a), rows(second, of_b)));
  }
  const auto count = static_cast<double>(values.size());
  KernelDistance distance;
  for (const double value : values) distance.mean += value / count;
  double squares = 0;
  for (const double value : values) squares += std::pow(value - distance.mean, 2);
  distance.standard_deviation = std::sqrt(squares / count);
  distance.subsets = options.subsets;
  distance.subset_size = options.subset_size;
  const int64_t smaller = std::min(a.size(0), b.size(0));
  if (options.subsets > 1 && 2 * options.subset_size <= smaller) {
    const double share = static_cast<double>(options.subset_size) / static_cast<double>(smaller);
    distance.standard_error = std::sqrt(squares / (count - 1) * (1 / count + share));
  }
  return distance;
}

}  // namespace noisemark::suite
