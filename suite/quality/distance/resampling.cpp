#include "suite/quality/distance/resampling.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "suite/random/counter_rng.h"

namespace noisemark::suite {
namespace {

// Sets 0 and 1 are those of a kernel distance's subsets (subset_draws.h).
constexpr uint64_t kSet = 2;

/// [rows], each below `rows`.
at::Tensor drawn_rows(int64_t rows, uint64_t seed, int64_t replicate) {
  CounterRng rng(seed, Stream::kSubset, static_cast<uint64_t>(replicate), kSet);
  const at::Tensor index = at::empty({rows}, at::TensorOptions().dtype(at::kLong));
  auto* numbers = index.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < rows; ++i) {
    numbers[i] = static_cast<int64_t>(rng.next_below(static_cast<uint64_t>(rows)));
  }
  return index;
}

}  // namespace

std::vector<double> resampled_distances(const at::Tensor& features,
                                        const std::function<double(const at::Tensor&)>& distance,
                                        const ResamplingOptions& options) {
  const at::NoGradGuard no_grad;
  std::vector<double> distances;
  for (int64_t replicate = 0; replicate < options.replicates; ++replicate) {
    if (options.progress) options.progress(replicate);
    const at::Tensor rows = drawn_rows(features.size(0), options.seed, replicate);
    distances.push_back(distance(features.index_select(0, rows.to(features.device()))));
  }
  return distances;
}

}  // namespace noisemark::suite
