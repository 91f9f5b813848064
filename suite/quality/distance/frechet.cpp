#include "suite/quality/distance/frechet.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/linalg_eigvalsh.h>
#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "reports/error.h"

namespace noisemark::suite {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
// Of every eigenvalue of L1' S2 L1, in units of the largest: that of the product that makes the
// matrix and of the solver. tests/suite/quality/distance/frechet_test.cpp holds it against exact
// spectra.
constexpr double kEigenvalueError = 8 * kEpsilon;
constexpr double kAcceptedError = 1e-7;  // of the traces
constexpr int64_t kBlock = 256;          // columns that are multiplied at once

double number(const at::Tensor& scalar) {
  return scalar.item<double>();
}

/// Half a distance: a mean, a covariance's trace, and how to come by a factor.
struct Part {
  at::Tensor mean;  ///< [d]
  double trace = 0;
  at::Tensor factor;  ///< [d, r]
};

/// Rows and columns of a matrix, each from one index up to another.
struct Range {
  int64_t begin;
  int64_t end;
};

at::Tensor block(const at::Tensor& matrix, Range rows, Range columns) {
  return matrix.slice(0, rows.begin, rows.end).slice(1, columns.begin, columns.end);
}

/// Lower triangular, or nothing where the covariance has not full rank.
std::optional<at::Tensor> lower_factor(const at::Tensor& covariance) {
  const auto [lower, info] = at::linalg_cholesky_ex(covariance);
  if (info.item<int>() != 0) return std::nullopt;
  // A pivot that is lost in the rounding of the largest is one of a rank that is not there.
  const at::Tensor pivots = lower.diagonal().square();
  const double lost = static_cast<double>(covariance.size(0)) * kEpsilon;
  if (number(pivots.min()) <= lost * number(pivots.max())) return std::nullopt;
  return lower;
}

at::Tensor factor_of(const at::Tensor& covariance) {
  if (const auto lower = lower_factor(covariance)) return *lower;
  const auto [values, vectors] = at::linalg_eigh(covariance);
  const double lost = static_cast<double>(covariance.size(0)) * kEpsilon;
  const double largest = std::max(number(values.max()), 0.0);
  const int64_t rank = (values > lost * largest).sum().item<int64_t>();
  const int64_t d = values.size(0);
  // In ascending order.
  return vectors.slice(1, d - rank, d) * values.slice(0, d - rank, d).sqrt();
}

double nuclear_norm(const at::Tensor& a, const at::Tensor& b) {
  if (a.size(1) == 0 || b.size(1) == 0) return 0;
  return number(at::linalg_svdvals(at::matmul(a.t(), b)).sum());
}

/// The upper triangle of L' S L, all that its eigenvalues need: n^3 operations in place of 4 n^3.
/// Half of L is 0, and of S L only what is on and below the diagonal meets the other half.
at::Tensor inner_upper(const at::Tensor& lower, const at::Tensor& covariance) {
  const int64_t d = covariance.size(0);
  const at::Tensor product = at::empty_like(covariance);
  const at::Tensor inner = at::zeros_like(product);
  for (int64_t begin = 0; begin < d; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, d);
    at::Tensor out = block(product, {begin, d}, {begin, end});
    at::mm_out(out, block(covariance, {begin, d}, {begin, d}),
               block(lower, {begin, d}, {begin, end}));
  }
  for (int64_t begin = 0; begin < d; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, d);
    at::Tensor out = block(inner, {0, end}, {begin, end});
    at::mm_out(out, block(product, {begin, d}, {0, end}).t(),
               block(lower, {begin, d}, {begin, end}));
  }
  return inner;
}

/// Tr (S1 S2)^(1/2) by the eigenvalues of L' S L; nothing where their roots cannot be trusted.
std::optional<double> by_eigenvalues(const at::Tensor& lower, const at::Tensor& covariance,
                                     double traces) {
  // Turned over it already lies in LAPACK's order, its lower triangle filled.
  const at::Tensor inner = inner_upper(lower, covariance).t();
  const at::Tensor values = at::linalg_eigvalsh(inner, "L").clamp_min(0);
  const double error = kEigenvalueError * number(values.max());
  const at::Tensor roots = values.sqrt();
  const double lost = number(((values + error).sqrt() - roots).sum());
  if (!(lost <= kAcceptedError * traces)) return std::nullopt;
  return number(roots.sum());
}

FrechetDistance distance_of(const at::Tensor& mean_difference, double traces, double cross,
                            std::string_view method) {
  FrechetDistance distance;
  distance.mean_term = number(mean_difference.square().sum());
  distance.trace_term = traces;
  distance.cross_term = cross;
  distance.method = method;
  distance.value = std::max(0.0, distance.mean_term + traces - 2 * cross);
  return distance;
}

void require_same_dimension(int64_t a, int64_t b) {
  if (a == b) return;
  throw bad_input("Fréchet distance", "features", fmt::format("{} and {} per sample", a, b),
                  "the same number in both sets");
}

Gaussian on_device(const Gaussian& gaussian, at::Device device) {
  return {gaussian.mean.to(device, at::kDouble), gaussian.covariance.to(device, at::kDouble),
          gaussian.samples};
}

Gaussian moments_of(const at::Tensor& features) {
  Moments moments(features.size(1), features.device());
  moments.add(features);
  return moments.gaussian();
}

bool is_low_rank(const at::Tensor& features) {
  return features.size(0) <= features.size(1);
}

Part part_of(const at::Tensor& features) {
  const at::Tensor values = features.detach().to(at::kDouble);
  const at::Tensor mean = values.mean(0);
  const double scale = 1 / std::sqrt(static_cast<double>(values.size(0) - 1));
  const at::Tensor factor = (values - mean).t() * scale;
  return {mean, number(factor.square().sum()), factor};
}

Part part_of(const Gaussian& gaussian) {
  return {gaussian.mean, number(gaussian.covariance.trace()), factor_of(gaussian.covariance)};
}

FrechetDistance distance_of(const Part& a, const Part& b) {
  return distance_of(a.mean - b.mean, a.trace + b.trace, nuclear_norm(a.factor, b.factor),
                     "features");
}

void require_features(const at::Tensor& features) {
  require_finite_features(features, "Fréchet distance");
  if (features.size(0) < 2) {
    throw bad_input("Fréchet distance", "samples", std::to_string(features.size(0)), "at least 2");
  }
}

}  // namespace

FrechetDistance frechet_distance(const Gaussian& first, const Gaussian& second) {
  require_same_dimension(first.dimension(), second.dimension());
  const at::NoGradGuard no_grad;
  const Gaussian a = on_device(first, first.mean.device());
  const Gaussian b = on_device(second, first.mean.device());
  const at::Tensor difference = a.mean - b.mean;
  const double traces = number(a.covariance.trace()) + number(b.covariance.trace());
  for (const bool swapped : {false, true}) {
    const auto lower = lower_factor(swapped ? b.covariance : a.covariance);
    if (!lower) continue;
    const auto cross = by_eigenvalues(*lower, swapped ? a.covariance : b.covariance, traces);
    if (cross) return distance_of(difference, traces, *cross, "cholesky");
    break;
  }
  const double cross = nuclear_norm(factor_of(a.covariance), factor_of(b.covariance));
  return distance_of(difference, traces, cross, "factors");
}

FrechetDistance frechet_distance(const at::Tensor& a, const Gaussian& second) {
  require_features(a);
  require_same_dimension(a.size(1), second.dimension());
  const at::NoGradGuard no_grad;
  const Gaussian b = on_device(second, a.device());
  if (!is_low_rank(a)) return frechet_distance(moments_of(a), b);
  return distance_of(part_of(a), part_of(b));
}

FrechetDistance frechet_distance(const at::Tensor& a, const at::Tensor& b) {
  require_features(a);
  require_features(b);
  require_same_dimension(a.size(1), b.size(1));
  const at::NoGradGuard no_grad;
  const at::Tensor second = b.to(a.device());
  if (!is_low_rank(a) && !is_low_rank(b)) {
    return frechet_distance(moments_of(a), moments_of(second));
  }
  if (!is_low_rank(a)) return distance_of(part_of(moments_of(a)), part_of(second));
  if (!is_low_rank(b)) return distance_of(part_of(a), part_of(moments_of(second)));
  return distance_of(part_of(a), part_of(second));
}

}  // namespace noisemark::suite
