#pragma once

#include "suite/environment/pm_sampling.h"

namespace noisemark::suite::test {

/// Counters that say what a test wants, of all metrics but the last, in as many windows as it
/// wants.
class FakeSampled final : public SampledCounters {
 public:
  explicit FakeSampled(size_t windows = 1) {
    const size_t metrics = sampled_metrics().size();
    sampled_.missing.resize(metrics);
    sampled_.windows.resize(windows);
    if (windows == 0) sampled_.missing.assign(metrics, "no permission");
    if (windows == 0) return;
    for (size_t i = 0; i + 1 < metrics; ++i) sampled_.windows[i % windows].metrics.push_back(i);
    sampled_.missing.back() = "this chip has no counter for it";
  }

  const SamplingWindows& sampled() const override { return sampled_; }
  void begin(size_t window, double expected_s) override {
    now_ = window;
    expected_s_ = expected_s;
    ++begun;
  }
  std::vector<SampledValue> end(double window_s) override {
    SampledValue value;
    value.frac = share;
    value.lowest = share / 2;
    value.highest = 1;
    value.samples = 1000;
    value.interval_s = window_s / 1000;
    value.called = "a__counter";
    return std::vector<SampledValue>(sampled_.windows.at(now_).metrics.size(), value);
  }
  [[nodiscard]] double expected_s() const { return expected_s_; }

  double share = 0.5;
  int begun = 0;

 private:
  SamplingWindows sampled_;
  size_t now_ = 0;
  double expected_s_ = 0;
};

}  // namespace noisemark::suite::test
