#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "suite/environment/pm_sampling.h"

namespace noisemark::suite {

/// A sampled metric and the window that it was sampled in.
struct SampledShare {
  SampledValue value;
  double window_s = 0;  ///< 0: in none
};

/// Runs `work`, which leaves the device idle, once in every window of `counters`; each is expected
/// to last `expected_s`. One for each of sampled_metrics().
[[nodiscard]] std::vector<SampledShare> sample_windows(SampledCounters& counters, double expected_s,
                                                       const std::function<void()>& work);

}  // namespace noisemark::suite
