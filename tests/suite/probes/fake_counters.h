#pragma once

#include <atomic>
#include <string_view>

#include "suite/environment/gpu_counters.h"

namespace noisemark::suite::test {

/// A GPU that says what a test wants.
class FakeCounters final : public GpuCounters {
 public:
  reports::DeviceReading read() override {
    ++reads;
    return reading;
  }
  std::optional<uint64_t> energy_mj() override {
    if (!energy) return std::nullopt;
    const uint64_t now = *energy;
    *energy += spent_mj;
    return now;
  }
  void begin_window() override { ++windows; }
  std::vector<GpmValue> end_window(double /*window_s*/) override {
    std::vector<GpmValue> values;
    for (const GpmMetric& metric : gpm_metrics()) {
      values.push_back(metric.name == missing ? GpmValue{std::nullopt, "no permission"}
                                              : GpmValue{share, ""});
    }
    return values;
  }
  std::optional<size_t> other_processes() override { return others; }
  ProcessMemory process_memory() override { return memory; }

  reports::DeviceReading reading;
  std::optional<uint64_t> energy;
  uint64_t spent_mj = 0;  ///< energy between two questions
  double share = 0.5;
  std::string_view missing;  ///< the name of a column without a value
  std::optional<size_t> others;
  ProcessMemory memory;
  int windows = 0;
  std::atomic<int> reads{0};
};

}  // namespace noisemark::suite::test
