#include "suite/quality/distance/measures.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cdist.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/matmul.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "reports/base/error.h"
#include "suite/quality/distance/frechet.h"

namespace noisemark::suite {
namespace {

constexpr const char* kKernelDistance = "kernel distance";

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
  require_finite_features(a, kKernelDistance);
  require_finite_features(b, kKernelDistance);
  if (a.size(1) != b.size(1)) {
    throw bad_input(kKernelDistance, "features",
                    fmt::format("{} and {} per sample", a.size(1), b.size(1)),
                    "the same number in both sets");
  }
  if (options.subsets < 1 || options.subset_size < 2) {
    throw bad_input(kKernelDistance, "subsets",
                    fmt::format("{} of {}", options.subsets, options.subset_size),
                    "at least 1 of at least 2");
  }
  const int64_t smaller = std::min(a.size(0), b.size(0));
  if (smaller < options.subset_size) {
    throw bad_input(kKernelDistance, "samples", fmt::format("{} and {}", a.size(0), b.size(0)),
                    fmt::format("at least {}, the size of a subset; or --subset-size {}",
                                options.subset_size, smaller));
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

namespace {

constexpr const char* kPrecisionRecall = "precision and recall";
constexpr int64_t kBlockDistances = int64_t{1} << 24;  // 128 MiB of float64
constexpr int64_t kByProducts = 1;  // cdist's mode: |x|^2 + |y|^2 - 2 x.y, one matrix product

/// Rows [begin, end) of `from` against all of `to`, for every block of rows.
template <typename Action>
void for_blocks(const at::Tensor& from, const at::Tensor& to, const Action& action) {
  const int64_t rows = std::max<int64_t>(1, kBlockDistances / to.size(0));
  for (int64_t begin = 0; begin < from.size(0); begin += rows) {
    const int64_t end = std::min(begin + rows, from.size(0));
    action(at::cdist(from.slice(0, begin, end), to, 2, kByProducts));
  }
}

/// [N]: from each sample to its k-th nearest other one.
at::Tensor radii_of(const at::Tensor& set, int64_t neighbours) {
  std::vector<at::Tensor> radii;
  // The nearest of all is the sample itself.
  for_blocks(set, set, [&](const at::Tensor& distances) {
    radii.push_back(std::get<0>(distances.kthvalue(neighbours + 1, 1)));
  });
  return at::cat(radii);
}

double covered_frac(const at::Tensor& samples, const at::Tensor& set, const at::Tensor& radii) {
  int64_t covered = 0;
  for_blocks(samples, set, [&](const at::Tensor& distances) {
    covered += (distances <= radii).any(1).sum().item<int64_t>();
  });
  return static_cast<double>(covered) / static_cast<double>(samples.size(0));
}

}  // namespace

PrecisionRecall precision_recall(const at::Tensor& real, const at::Tensor& generated,
                                 int64_t neighbours) {
  require_finite_features(real, kPrecisionRecall);
  require_finite_features(generated, kPrecisionRecall);
  if (real.size(1) != generated.size(1)) {
    throw bad_input(kPrecisionRecall, "features",
                    fmt::format("{} and {} per sample", real.size(1), generated.size(1)),
                    "the same number in both sets");
  }
  if (neighbours < 1)
    throw bad_input(kPrecisionRecall, "k", std::to_string(neighbours), "at least 1");
  if (std::min(real.size(0), generated.size(0)) <= neighbours) {
    throw bad_input(kPrecisionRecall, "samples",
                    fmt::format("{} and {}", real.size(0), generated.size(0)),
                    fmt::format("more than k = {}", neighbours));
  }
  const at::NoGradGuard no_grad;
  const at::Tensor a = real.to(at::kDouble);
  const at::Tensor b = generated.to(real.device(), at::kDouble);
  PrecisionRecall result;
  result.precision_frac = covered_frac(b, a, radii_of(a, neighbours));
  result.recall_frac = covered_frac(a, b, radii_of(b, neighbours));
  result.neighbours = neighbours;
  return result;
}

namespace {

constexpr const char* kInceptionScore = "Inception score";

at::Tensor in_order(const at::Tensor& logits, const std::vector<int64_t>& order) {
  if (order.empty()) return logits;
  TORCH_CHECK(static_cast<int64_t>(order.size()) == logits.size(0), "an order of all samples");
  const at::Tensor index = at::empty({logits.size(0)}, at::TensorOptions().dtype(at::kLong));
  std::copy(order.begin(), order.end(), index.mutable_data_ptr<int64_t>());
  return logits.index_select(0, index.to(logits.device()));
}

double score_of(const at::Tensor& log_p) {
  const at::Tensor p = log_p.exp();
  const at::Tensor marginal = p.mean(0, /*keepdim=*/true);
  // A class of probability 0 everywhere contributes nothing: 0 * (-inf - -inf) would be NaN.
  const at::Tensor divergence = (p * (log_p - marginal.log())).nan_to_num(0.0).sum(1);
  return divergence.mean().exp().item<double>();
}

}  // namespace

InceptionScore inception_score(const at::Tensor& logits, int64_t splits,
                               const std::vector<int64_t>& order) {
  require_finite_features(logits, kInceptionScore);
  const int64_t n = logits.size(0);
  if (splits < 1 || n < splits) {
    throw bad_input(kInceptionScore, "splits", fmt::format("{} of {} samples", splits, n),
                    "at least 1, and no more than samples");
  }
  const at::NoGradGuard no_grad;
  const at::Tensor log_p = at::log_softmax(in_order(logits, order).to(at::kDouble), 1);
  std::vector<double> scores;
  for (int64_t i = 0; i < splits; ++i) {
    scores.push_back(score_of(log_p.slice(0, i * n / splits, (i + 1) * n / splits)));
  }
  const auto count = static_cast<double>(splits);
  InceptionScore result;
  result.splits = splits;
  for (const double score : scores) result.mean += score / count;
  double squares = 0;
  for (const double score : scores) squares += std::pow(score - result.mean, 2);
  result.standard_deviation = std::sqrt(squares / count);
  return result;
}

namespace {

constexpr const char* kMixtureDistance = "distance to the mixture";
constexpr int64_t kRows = 1024;  // whose posterior is computed at once

at::Tensor draws(const GaussianMixture& mixture, int64_t n, uint64_t seed, uint64_t set) {
  const int64_t d = mixture.dimension();
  const at::Tensor out = at::empty({n, d}, at::TensorOptions().dtype(at::kFloat));
  auto* values = out.mutable_data_ptr<float>();
  for (int64_t i = 0; i < n; ++i) {
    mixture.sample(CounterRng(seed, Stream::kSubset, set, static_cast<uint64_t>(i)),
                   std::span(values + i * d, static_cast<size_t>(d)));
  }
  return out;
}

/// [K]: how many samples are likeliest of each component. A sample of the data is x_t at
/// alpha_bar 1.
std::vector<int64_t> components_of(const at::Tensor& samples, const GaussianMixture& mixture) {
  std::vector<int64_t> counts(static_cast<size_t>(mixture.components()), 0);
  for (int64_t begin = 0; begin < samples.size(0); begin += kRows) {
    const int64_t end = std::min(begin + kRows, samples.size(0));
    const at::Tensor alpha_bar = at::full({end - begin}, 1.0, at::kDouble);
    const at::Tensor component =
        mixture.posterior(samples.slice(0, begin, end), alpha_bar).responsibilities.argmax(1);
    const auto* k = component.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < end - begin; ++i) ++counts[static_cast<size_t>(k[i])];
  }
  return counts;
}

void count_components(const at::Tensor& samples, const GaussianMixture& mixture,
                      MixtureDistance& distance) {
  const auto n = static_cast<double>(samples.size(0));
  const auto counts = components_of(samples, mixture);
  const auto* weight = mixture.weights().const_data_ptr<double>();
  for (size_t k = 0; k < counts.size(); ++k) {
    const auto found = static_cast<double>(counts[k]);
    const double expected = weight[k] * n;
    distance.component_share_frac.push_back(found / n);
    distance.component_chi_square += (found - expected) * (found - expected) / expected;
  }
}

}  // namespace

Gaussian exact_gaussian(const GaussianMixture& mixture) {
  return {mixture.mean(), mixture.covariance(), 0};
}

MixtureDistance mixture_distance(const at::Tensor& samples, const GaussianMixture& mixture,
                                 const MixtureDistanceOptions& options) {
  if (samples.dim() < 2 || samples.numel() != samples.size(0) * mixture.dimension()) {
    throw bad_input(
        kMixtureDistance, "samples",
        fmt::format("{} values in {}", samples.numel(), samples.dim() == 0 ? 0 : samples.size(0)),
        fmt::format("{} values each", mixture.dimension()));
  }
  const at::Tensor rows =
      samples.detach().to(at::kCPU).reshape({samples.size(0), mixture.dimension()});
  const Gaussian exact = exact_gaussian(mixture);
  MixtureDistance distance;
  distance.frechet = frechet_distance(rows, exact);
  distance.samples = rows.size(0);
  for (int64_t set = 0; set < options.floor_sets; ++set) {
    const at::Tensor perfect =
        draws(mixture, rows.size(0), options.seed, static_cast<uint64_t>(set));
    const double value = frechet_distance(perfect, exact).value;
    distance.floor_mean += value / static_cast<double>(options.floor_sets);
    distance.floor_largest = std::max(distance.floor_largest, value);
  }
  count_components(rows, mixture, distance);
  return distance;
}

}  // namespace noisemark::suite
