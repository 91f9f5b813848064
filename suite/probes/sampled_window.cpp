#include "suite/probes/sampled_window.h"

#include <chrono>
#include <utility>

namespace noisemark::suite {

std::vector<SampledShare> sample_windows(SampledCounters& counters, double expected_s,
                                         const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  const SamplingPlan& plan = counters.plan();
  std::vector<SampledShare> shares(plan.missing.size());
  for (size_t i = 0; i < shares.size(); ++i) shares[i].value.missing_reason = plan.missing[i];
  for (size_t w = 0; w < plan.windows.size(); ++w) {
    counters.begin(w, expected_s);
    const auto begin = Clock::now();
    work();
    const double window_s = std::chrono::duration<double>(Clock::now() - begin).count();
    std::vector<SampledValue> values = counters.end(window_s);
    const std::vector<size_t>& metrics = plan.windows[w].metrics;
    for (size_t i = 0; i < metrics.size() && i < values.size(); ++i) {
      shares.at(metrics[i]) = {std::move(values[i]), window_s};
    }
  }
  return shares;
}

}  // namespace noisemark::suite
