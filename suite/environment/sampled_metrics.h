#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What is sampled of a GPU's hardware counters, how it is laid out in windows, and what becomes of
/// the samples. Pure functions; pm_sampling.h asks the hardware.
namespace noisemark::suite {

/// A share of what the hardware could do at most in the same time.
struct SampledMetric {
  std::string_view name;      ///< in results: "sm_active_sampled"
  std::string_view gpm_name;  ///< of NVML's column of the same: "sm_active"
  /// As NVML defines it, so that both must agree. NVML's FP32 is arithmetic alone; CUPTI has the
  /// pipe, which computes with integers and halves too.
  bool same_definition = true;
  std::vector<std::string_view> called;  ///< by CUPTI, the first that a chip has and fits
};

/// Those that become columns, in their order.
[[nodiscard]] const std::vector<SampledMetric>& sampled_metrics();

/// What is sampled at once.
struct SamplingWindow {
  std::vector<size_t> metrics;      ///< of sampled_metrics()
  std::vector<std::string> called;  ///< one for each
};

struct SamplingPlan {
  std::vector<SamplingWindow> windows;
  std::vector<std::string> missing;  ///< for each metric why it is in no window; empty: it is
};

/// In how many passes the hardware counts all of `called`; empty where it does not know one of
/// them.
using CountPasses = std::function<std::optional<size_t>(const std::vector<std::string>& called)>;

/// As few windows as come of putting each metric into the first in which it fits: sampling has one
/// pass, so that what needs more than one is sampled in windows of their own.
[[nodiscard]] SamplingPlan plan_windows(const CountPasses& passes);

/// The counters between two moments of the device.
struct CounterSample {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  std::vector<double> percent;  ///< one for each metric of the window
};

/// Of one metric in one window.
struct SampledValue {
  std::optional<double> frac;     ///< mean over time, 0 to 1
  std::optional<double> lowest;   ///< of a sample
  std::optional<double> highest;  ///< of a sample
  int64_t samples = 0;
  double interval_s = 0;  ///< of a sample, the mean
  std::string called;     ///< by CUPTI
  std::string missing_reason;
};

/// For each metric of `window`, which lasted `window_s`. The first sample is left out: it also
/// counts what was before it. Without a value where samples overlap, are fewer than 10, leave out
/// more than a twentieth of the window or take longer than it, and where the hardware gave no
/// number or more than all.
[[nodiscard]] std::vector<SampledValue> summarise(const SamplingWindow& window,
                                                  const std::vector<CounterSample>& samples,
                                                  double window_s);

}  // namespace noisemark::suite
