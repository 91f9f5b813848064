#include "suite/quality/distance/moments.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "reports/error.h"

namespace noisemark::suite {
namespace {

// Columns that are multiplied at once: large enough for a fast product, small enough that the
// blocks on the diagonal, of which half is not needed, are few.
constexpr int64_t kBlock = 256;
constexpr double kAsymmetry = 1e-6;

at::TensorOptions doubles_on(at::Device device) {
  return at::TensorOptions().dtype(at::kDouble).device(device);
}

/// squares += centered' centered, on and above the diagonal, block by block.
void add_squares(at::Tensor& squares, const at::Tensor& centered) {
  const int64_t d = squares.size(0);
  for (int64_t begin = 0; begin < d; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, d);
    at::Tensor block = squares.slice(0, begin, end).slice(1, begin, d);
    block.addmm_(centered.slice(1, begin, end).t(), centered.slice(1, begin, d));
  }
}

std::string shape_of(const at::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes(), ", "));
}

}  // namespace

void require_finite_features(const at::Tensor& features, const std::string& where,
                             int64_t first_row) {
  if (features.dim() != 2 || features.size(1) < 1) {
    throw bad_input(where, "features", shape_of(features), "[N, d]");
  }
  if (!features.is_floating_point()) {
    throw bad_input(where, "features", c10::toString(features.scalar_type()), "floating point");
  }
  // The sum is finite unless a value is not or it overflows, and needs no second tensor.
  if (at::isfinite(features.sum()).item<bool>()) return;
  const at::Tensor good = at::isfinite(features).all(1);
  const at::Tensor bad_rows = good.logical_not().nonzero();
  if (bad_rows.size(0) == 0) return;
  throw bad_input(
      where, "features",
      fmt::format("{} of {} rows hold NaN or infinity, the first is row {}", bad_rows.size(0),
                  features.size(0), first_row + bad_rows[0][0].item<int64_t>()),
      "finite values");
}

Gaussian checked_gaussian(const at::Tensor& mean, const at::Tensor& covariance,
                          const std::string& where) {
  if (mean.dim() != 1 || mean.size(0) < 1) {
    throw bad_input(where, "mean", shape_of(mean), "[d]");
  }
  const int64_t d = mean.size(0);
  if (covariance.dim() != 2 || covariance.size(0) != d || covariance.size(1) != d) {
    throw bad_input(where, "covariance", shape_of(covariance), fmt::format("[{}, {}]", d, d));
  }
  const at::Tensor mu = mean.to(at::kDouble);
  const at::Tensor sigma = covariance.to(at::kDouble);
  if (!at::isfinite(mu).all().item<bool>() || !at::isfinite(sigma).all().item<bool>()) {
    throw bad_input(where, "statistics", "NaN or infinity", "finite values");
  }
  const double largest = sigma.abs().max().item<double>();
  if ((sigma - sigma.t()).abs().max().item<double>() > kAsymmetry * largest) {
    throw bad_input(where, "covariance", "not symmetric", "");
  }
  if (sigma.diagonal().min().item<double>() < 0) {
    throw bad_input(where, "covariance", "a negative variance", "at least 0");
  }
  return {mu, (sigma + sigma.t()) / 2, 0};
}

Moments::Moments(int64_t dimension, at::Device device)
    : mean_(at::zeros({dimension}, doubles_on(device))),
      squares_(at::zeros({dimension, dimension}, doubles_on(device))) {
  TORCH_CHECK(dimension >= 1, "features need at least one dimension");
}

void Moments::add(const at::Tensor& features) {
  const std::string where = "moments";
  require_finite_features(features, where, samples_);
  if (features.size(1) != dimension()) {
    throw bad_input(where, "features", fmt::format("{} per sample", features.size(1)),
                    fmt::format("{}, as before", dimension()));
  }
  if (features.size(0) == 0) return;
  at::Tensor centered =
      features.detach().to(mean_.options(), /*non_blocking=*/false, /*copy=*/true);
  const at::Tensor mean = centered.mean(0);
  centered -= mean;
  add_squares(squares_, centered);
  join(mean, features.size(0));
}

// The squares of both parts are in already; what is missing is that their means differ.
void Moments::join(const at::Tensor& mean, int64_t samples) {
  const auto ours = static_cast<double>(samples_);
  const auto theirs = static_cast<double>(samples);
  const at::Tensor difference = mean - mean_;
  if (samples_ > 0) {
    squares_.addr_(difference, difference, 1, ours * theirs / (ours + theirs));
  }
  mean_ += difference * (theirs / (ours + theirs));
  samples_ += samples;
}

void Moments::merge(const Moments& other) {
  if (other.dimension() != dimension()) {
    throw bad_input("moments", "features", fmt::format("{} per sample", other.dimension()),
                    fmt::format("{}, as before", dimension()));
  }
  if (other.samples_ == 0) return;
  squares_ += other.squares_.to(squares_.device());
  join(other.mean_.to(mean_.device()), other.samples_);
}

Gaussian Moments::gaussian() const {
  if (samples_ < 2) {
    throw bad_input("moments", "samples", std::to_string(samples_), "at least 2");
  }
  const at::Tensor upper = squares_.triu() / static_cast<double>(samples_ - 1);
  return {mean_.clone(), upper + upper.triu(1).t(), samples_};
}

}  // namespace noisemark::suite
