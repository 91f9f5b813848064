#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Describes what is sampled of a GPU's hardware counters, how it is laid out in windows, and what
/// becomes of the samples. Pure functions; pm_sampling.h asks the hardware.

namespace noisemark::suite {

inline constexpr double kSecondsPerNanosecond = 1e-9;

/// A share of what the hardware could do at most in the same time.
struct SampledMetric {
  std::string_view name;      ///< in results: "sm_active_sampled"
  std::string_view gpm_name;  ///< NVML's column of the same metric: "sm_active"
  /// The metric is as NVML defines it, so that both must agree. NVML's FP32 is arithmetic alone;
  /// CUPTI has the pipe, which computes with integers and halves too.
  bool same_definition = true;
  std::vector<std::string_view> called;  ///< CUPTI's names, of which the first that a chip has fits
};

/// The metrics that become columns, in their order.
[[nodiscard]] const std::vector<SampledMetric>& sampled_metrics();

/// The metrics that are sampled at once.
struct SamplingWindow {
  std::vector<size_t> metrics;      ///< indices in sampled_metrics()
  std::vector<std::string> called;  ///< one for each
};

struct SamplingWindows {
  std::vector<SamplingWindow> windows;
  std::vector<std::string> missing;  ///< the reason why each metric is in no window; empty: it is
                                     ///< in one
};

/// Returns in how many passes the hardware counts all of `called`; empty where it does not know one
/// of them.
using CountPasses = std::function<std::optional<size_t>(const std::vector<std::string>& called)>;

/// Returns as few windows as come of putting each metric into the first in which it fits: sampling
/// has one pass, so that what needs more than one is sampled in windows of their own.
[[nodiscard]] SamplingWindows choose_windows(const CountPasses& passes);

/// The counters between two moments of the device.
struct CounterSample {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  std::vector<double> percent;  ///< one for each metric of the window
};

/// The value of one metric in one window.
struct SampledValue {
  std::optional<double> frac;     ///< mean over time, 0 to 1
  std::optional<double> lowest;   ///< lowest sample, 0 to 1
  std::optional<double> highest;  ///< highest sample, 0 to 1
  int64_t samples = 0;
  double interval_s = 0;  ///< mean length of a sample
  std::string called;     ///< CUPTI's name
  std::string missing_reason;
};

/// Returns a value for each metric of `window`, which lasted `window_s`. The first sample is left
/// out: it also counts what was before it. It has no value where samples overlap, are fewer than
/// 10, leave out more than a twentieth of the window or take longer than it, and where the hardware
/// gave no number or more than all.
[[nodiscard]] std::vector<SampledValue> summarise(const SamplingWindow& window,
                                                  const std::vector<CounterSample>& samples,
                                                  double window_s);

/// Hardware counters of a GPU, read every millisecond or so while programs run on it: CUPTI's PM
/// sampling, on Turing and later. The driver must let this user read counters. Values are of the
/// whole GPU, whoever used it. Nothing else may profile the GPU in the same window, so that it is
/// none of those in which LibTorch's profiler, NVML's counters or a clock run.

/// Counters that are sampled in windows of their own. Tests have their own.
class SampledCounters {
 public:
  virtual ~SampledCounters() = default;
  /// Returns what is sampled in which window, and why some is in none.
  [[nodiscard]] virtual const SamplingWindows& sampled() const = 0;
  /// Begins a window of sampled() that is expected to last `expected_s`, which decides how often
  /// counters are read.
  virtual void begin(size_t window, double expected_s) = 0;
  /// Ends it: one for each metric of the window, of the time since begin().
  [[nodiscard]] virtual std::vector<SampledValue> end(double window_s) = 0;
};

/// The counters of CUPTI; no window, and a reason for each metric, where it has none. `ordinal`
/// counts as CUDA counts.
[[nodiscard]] std::unique_ptr<SampledCounters> make_sampled_counters(int ordinal);

/// Returns whether CUPTI samples the GPU's counters for this user: empty, or why not. CUDA must
/// have been started. Takes the counters for a moment, which fails while another profiler has them.
[[nodiscard]] std::string why_no_sampling(int ordinal);

/// Returns in how many passes CUPTI counts `called` on `chip` ("GH100"); empty where it does not
/// know them, or without CUPTI. Needs no GPU.
[[nodiscard]] std::optional<size_t> passes_on_chip(const std::string& chip,
                                                   const std::vector<std::string>& called);

}  // namespace noisemark::suite
