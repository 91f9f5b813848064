#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace noisemark::suite {

/// Which samples a distance looks at. `count` different numbers below `total`, for subset number
/// `subset` of set 0 or 1. Called in ascending order of subset, set 0 before set 1. `count` is at
/// most `total`.
using DrawSubset =
    std::function<std::vector<int64_t>(int64_t subset, int set, int64_t total, int64_t count)>;

/// By counter (Stream::kSubset keyed by seed, subset and set): a draw depends on nothing before it.
[[nodiscard]] DrawSubset counter_draws(uint64_t seed);

/// As torch-fidelity: numpy.random.RandomState(seed).choice(total, count, replace=False), whose
/// state runs on from call to call. RandomState is frozen by NumPy's own policy (NEP 19).
[[nodiscard]] DrawSubset numpy_draws(uint32_t seed);

/// The permutation that numpy.random.RandomState(seed).permutation(total) gives first.
[[nodiscard]] std::vector<int64_t> numpy_permutation(uint32_t seed, int64_t total);

}  // namespace noisemark::suite
