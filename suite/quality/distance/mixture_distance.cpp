#include "suite/quality/distance/mixture_distance.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>

#include "reports/error.h"

namespace noisemark::suite {
namespace {

constexpr const char* kWhere = "distance to the mixture";
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
        kWhere, "samples",
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
