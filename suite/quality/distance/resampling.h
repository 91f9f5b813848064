#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace noisemark::suite {

/// Features drawn again (Efron 1979), to see what a distance of other samples of the same origin
/// would have been.
struct ResamplingOptions {
  int64_t replicates = 0;
  uint64_t seed = 0;
  std::function<void(int64_t done)> progress;  ///< before each replicate; may be empty
};

/// What `distance` says of each replicate of `features` [N, d]: N rows drawn with replacement, by
/// counter (Stream::kSubset keyed by seed and replicate), so that a replicate depends on none
/// before it. Throws what `distance` throws.
[[nodiscard]] std::vector<double> resampled_distances(
    const at::Tensor& features, const std::function<double(const at::Tensor&)>& distance,
    const ResamplingOptions& options);

}  // namespace noisemark::suite
