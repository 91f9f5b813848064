#include "suite/quality/distance/precision_recall.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cdist.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "reports/error.h"
#include "suite/quality/distance/moments.h"

namespace noisemark::suite {
namespace {

constexpr const char* kWhere = "precision and recall";
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
  require_finite_features(real, kWhere);
  require_finite_features(generated, kWhere);
  if (real.size(1) != generated.size(1)) {
    throw bad_input(kWhere, "features",
                    fmt::format("{} and {} per sample", real.size(1), generated.size(1)),
                    "the same number in both sets");
  }
  if (neighbours < 1) throw bad_input(kWhere, "k", std::to_string(neighbours), "at least 1");
  if (std::min(real.size(0), generated.size(0)) <= neighbours) {
    throw bad_input(kWhere, "samples", fmt::format("{} and {}", real.size(0), generated.size(0)),
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

}  // namespace noisemark::suite
