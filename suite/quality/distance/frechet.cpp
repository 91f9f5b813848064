#include "suite/quality/distance/frechet.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/linalg_eigvalsh.h>
#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "reports/base/error.h"

namespace noisemark::suite {
namespace {

// Columns that are multiplied at once: large enough for a fast product, small enough that the
// blocks on the diagonal, of which half is not needed, are few.
constexpr int64_t kBlock = 256;
constexpr double kAsymmetry = 1e-6;
// It admits all that float32 can hold. A distance takes fourth and sixth powers of its features,
// and those of larger ones leave the numbers of float64.
constexpr double kLargest = 1e40;
constexpr double kNegative = 1e-5;  // part of the largest value: float32 at some thousand
                                    // dimensions
constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

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

/// Returns what rounding makes of an eigenvalue of 0, in units of the largest. For float64 it is d
/// * 2^-23, LAPACK's bound (Anderson et al., LAPACK Users' Guide, 4.7), by which NumPy's
/// matrix_rank tells 0 from rounding, for the float32 in which the features were perhaps computed.
/// Values that float32 holds were perhaps rounded to it themselves.
double rounding_of(const at::Tensor& covariance) {
  const bool is_float = at::equal(covariance, covariance.to(at::kFloat).to(at::kDouble));
  const double of_features = static_cast<double>(covariance.size(0)) * 0x1p-23;
  return is_float ? kNegative : std::min(kNegative, of_features);
}

/// Looks along the axes of the covariance itself: a matrix with such an axis belongs to no
/// features. The factor, which is cheap, proves that there is none; eigenvalues are asked only
/// where it fails.
void require_no_negative_variance(const at::Tensor& covariance, double rounding, double largest,
                                  const std::string& where) {
  const at::Tensor raised =
      covariance + rounding * largest * at::eye(covariance.size(0), covariance.options());
  if (std::get<1>(at::linalg_cholesky_ex(raised)).item<int>() == 0) return;
  const at::Tensor values = at::linalg_eigvalsh(covariance);
  const double smallest = values.min().item<double>();
  if (smallest >= -rounding * values.max().item<double>()) return;
  throw bad_input(where, "covariance", fmt::format("an eigenvalue of {:.6g}", smallest),
                  "none below 0: a variance along each axis");
}

void require_at_most(double largest, const at::Tensor& values, const std::string& where,
                     const std::string& what) {
  if (values.numel() == 0) return;
  const double found = values.abs().max().item<double>();
  if (found <= largest) return;
  throw bad_input(where, what, fmt::format("values as large as {:.6g}", found),
                  fmt::format("at most {:g}", largest));
}

void require_no_overflow(const at::Tensor& features, const std::string& where) {
  if (features.scalar_type() == at::kDouble) require_at_most(kLargest, features, where, "features");
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
  if (at::isfinite(features.sum()).item<bool>()) return require_no_overflow(features, where);
  const at::Tensor good = at::isfinite(features).all(1);
  const at::Tensor bad_rows = good.logical_not().nonzero();
  if (bad_rows.size(0) == 0) return require_no_overflow(features, where);
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
  require_at_most(kLargest, mu, where, "mean");
  require_at_most(kLargest * kLargest, sigma, where, "covariance");
  const double largest = sigma.abs().max().item<double>();
  if ((sigma - sigma.t()).abs().max().item<double>() > kAsymmetry * largest) {
    throw bad_input(where, "covariance", "not symmetric", "");
  }
  if (sigma.diagonal().min().item<double>() < 0) {
    throw bad_input(where, "covariance", "a negative variance", "at least 0");
  }
  const at::Tensor symmetric = (sigma + sigma.t()) / 2;
  require_no_negative_variance(symmetric, rounding_of(sigma), largest, where);
  return {mu, symmetric, 0};
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

namespace {

// The error of every eigenvalue of L1' S2 L1, in units of the largest: that of the product that
// makes the matrix and of the solver. tests/suite/quality/distance/frechet_test.cpp holds it
// against exact spectra.
constexpr double kEigenvalueError = 8 * kEpsilon;
constexpr double kAcceptedError = 1e-7;  // part of the traces

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
  // The eigenvalues are in ascending order.
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
