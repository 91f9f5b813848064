#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "suite/environment/sampled_metrics.h"

/// Hardware counters of a GPU, read every millisecond or so while programs run on it: CUPTI's PM
/// sampling, on Turing and later. The driver must let this user read counters. Values are of the
/// whole GPU, whoever used it. Nothing else may profile the GPU in the same window, so that it is
/// none of those in which LibTorch's profiler, NVML's counters or a clock run.
namespace noisemark::suite {

/// Counters that are sampled in windows of their own. Tests have their own.
class SampledCounters {
 public:
  virtual ~SampledCounters() = default;
  /// What is sampled in which window, and why some is in none.
  [[nodiscard]] virtual const SamplingPlan& plan() const = 0;
  /// Begins a window of plan() that is expected to last `expected_s`, which decides how often
  /// counters are read.
  virtual void begin(size_t window, double expected_s) = 0;
  /// Ends it: one for each metric of the window, of the time since begin().
  [[nodiscard]] virtual std::vector<SampledValue> end(double window_s) = 0;
};

/// Those of CUPTI; no window, and a reason for each metric, where it has none. `ordinal` counts as
/// CUDA counts.
[[nodiscard]] std::unique_ptr<SampledCounters> make_sampled_counters(int ordinal);

/// Whether CUPTI samples the GPU's counters for this user: empty, or why not. CUDA must have been
/// started. Takes the counters for a moment, which fails while another profiler has them.
[[nodiscard]] std::string why_no_sampling(int ordinal);

/// In how many passes CUPTI counts `called` on `chip` ("GH100"); empty where it does not know them,
/// or without CUPTI. Needs no GPU.
[[nodiscard]] std::optional<size_t> passes_on_chip(const std::string& chip,
                                                   const std::vector<std::string>& called);

}  // namespace noisemark::suite
