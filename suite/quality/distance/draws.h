#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace noisemark::suite {

/// Chooses the samples that a distance looks at: `count` different numbers below `total`, for
/// subset number `subset` of set 0 or 1. It is called in ascending order of subset, set 0 before
/// set 1. `count` is at most `total`.
using DrawSubset =
    std::function<std::vector<int64_t>(int64_t subset, int set, int64_t total, int64_t count)>;

/// Draws by counter (Stream::kSubset keyed by seed, subset and set): a draw depends on nothing
/// before it.
[[nodiscard]] DrawSubset counter_draws(uint64_t seed);

/// Draws as torch-fidelity does: numpy.random.RandomState(seed).choice(total, count,
/// replace=False), whose state runs on from call to call. RandomState is frozen by NumPy's own
/// policy (NEP 19).
[[nodiscard]] DrawSubset numpy_draws(uint32_t seed);

/// The permutation that numpy.random.RandomState(seed).permutation(total) gives first.
[[nodiscard]] std::vector<int64_t> numpy_permutation(uint32_t seed, int64_t total);

/// Features drawn again (Efron 1979), to see what a distance of other samples of the same origin
/// would have been.
struct ResamplingOptions {
  int64_t replicates = 0;
  uint64_t seed = 0;
  std::function<void(int64_t done)> progress;  ///< is called before each replicate; may be empty
};

/// Returns what `distance` says of each replicate of `features` [N, d]: N rows drawn with
/// replacement, by counter (Stream::kSubset keyed by seed and replicate), so that a replicate
/// depends on none before it. Throws what `distance` throws.
[[nodiscard]] std::vector<double> resampled_distances(
    const at::Tensor& features, const std::function<double(const at::Tensor&)>& distance,
    const ResamplingOptions& options);

}  // namespace noisemark::suite
