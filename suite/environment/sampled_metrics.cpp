#include "suite/environment/sampled_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace noisemark::suite {
namespace {

constexpr double kSecondsPerNanosecond = 1e-9;
constexpr double kMostPercent = 100.5;   // what rounding may add to a mean, as of GPM
constexpr double kMostOfSample = 105.0;  // the parts of a GPU do not end a sample in the same cycle
constexpr size_t kFewestSamples = 10;
constexpr double kLeastCovered = 0.95;  // of the window; its ends have no whole sample
constexpr double kMostCovered = 1.10;   // sampling begins a little before and ends a little after

using Samples = std::span<const CounterSample>;

double seconds_of(const CounterSample& sample) {
  return static_cast<double>(sample.end_ns - sample.begin_ns) * kSecondsPerNanosecond;
}

double seconds_of(Samples samples) {
  double sum_s = 0;
  for (const CounterSample& sample : samples) sum_s += seconds_of(sample);
  return sum_s;
}

/// What is wrong with the samples' times; empty where nothing is.
std::string fault_of(Samples samples, double window_s) {
  for (size_t i = 0; i < samples.size(); ++i) {
    const bool backwards = samples[i].end_ns <= samples[i].begin_ns;
    if (backwards || (i > 0 && samples[i].begin_ns < samples[i - 1].end_ns)) {
      return fmt::format("sample {} overlaps another one in time", i + 1);
    }
  }
  if (samples.size() < kFewestSamples) {
    return fmt::format("{} samples are too few: it needs {}", samples.size(), kFewestSamples);
  }
  const double covered = seconds_of(samples) / window_s;
  if (covered > kMostCovered) {
    return fmt::format("the samples' times add up to {:.0f} % of the window", 100 * covered);
  }
  if (covered >= kLeastCovered) return "";
  return fmt::format("samples were dropped: there are some of {:.0f} % of the window",
                     100 * covered);
}

/// Why a share of one sample, or of all, is none; empty where it is one.
std::string why_no_share(double percent, double most) {
  if (!std::isfinite(percent)) return "the hardware gave no number, as for what others share";
  if (percent >= 0 && percent <= most) return "";
  return fmt::format("the hardware gave {:.1f} %, which cannot be", percent);
}

SampledValue value_of(Samples samples, size_t metric) {
  SampledValue value;
  double lowest = kMostOfSample;
  double highest = 0;
  double sum = 0;
  for (const CounterSample& sample : samples) {
    const double percent = metric < sample.percent.size() ? sample.percent[metric] : std::nan("");
    value.missing_reason = why_no_share(percent, kMostOfSample);
    if (!value.missing_reason.empty()) return value;
    sum += percent * seconds_of(sample);
    lowest = std::min(lowest, percent);
    highest = std::max(highest, percent);
  }
  const double mean = sum / seconds_of(samples);
  value.missing_reason = why_no_share(mean, kMostPercent);
  if (!value.missing_reason.empty()) return value;
  value.frac = std::min(mean, 100.0) / 100;
  value.lowest = std::min(lowest, 100.0) / 100;
  value.highest = std::min(highest, 100.0) / 100;
  value.samples = static_cast<int64_t>(samples.size());
  return value;
}

/// The first of `metric`'s names with which `window` still needs one pass; empty without one.
std::optional<std::string> fitting_name(const SampledMetric& metric, const SamplingWindow& window,
                                        const CountPasses& passes) {
  std::vector<std::string> all = window.called;
  all.emplace_back();
  for (const std::string_view name : metric.called) {
    all.back() = name;
    if (passes(all) == 1) return all.back();
  }
  return std::nullopt;
}

std::string why_nowhere(const SampledMetric& metric, const CountPasses& passes) {
  std::optional<size_t> fewest;
  for (const std::string_view name : metric.called) {
    const auto count = passes({std::string(name)});
    if (count) fewest = std::min(fewest.value_or(*count), *count);
  }
  return fewest ? fmt::format("it needs {} passes, and sampling has one", *fewest)
                : "this chip has no counter for it";
}

}  // namespace

const std::vector<SampledMetric>& sampled_metrics() {
  // Without "realtime" in their names some share a counter's wires and take a pass more; the names
  // in "TriageCompute" are those that NVIDIA laid out for Hopper to be counted together.
  static const std::vector<SampledMetric> kMetrics{
      {"sm_active_sampled",
       "sm_active",
       true,
       {"sm__cycles_active.avg.pct_of_peak_sustained_elapsed"}},
      {"sm_occupancy_sampled",
       "sm_occupancy",
       true,
       {"sm__warps_active_realtime.avg.pct_of_peak_sustained_elapsed",
        "sm__warps_active.avg.pct_of_peak_sustained_elapsed"}},
      {"tensor_active_sampled",
       "tensor_active",
       true,
       {"sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"}},
      {"dram_active_sampled",
       "dram_active",
       true,
       {"dram__bytes.avg.pct_of_peak_sustained_elapsed",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed"}},
      {"fp32_active_sampled",
       "fp32_active",
       false,
       {"TPC.TriageCompute.sm__inst_executed_pipe_fma_realtime.avg.pct_of_peak_sustained_elapsed",
        "sm__inst_executed_pipe_fma_realtime.avg.pct_of_peak_sustained_elapsed",
        "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_elapsed"}},
      {"fp16_active_sampled",
       "fp16_active",
       false,
       {"sm__inst_executed_pipe_fma_type_fp16.avg.pct_of_peak_sustained_elapsed",
        "sm__inst_executed_pipe_fp16.avg.pct_of_peak_sustained_elapsed"}}};
  return kMetrics;
}

SamplingPlan plan_windows(const CountPasses& passes) {
  SamplingPlan plan;
  const std::vector<SampledMetric>& metrics = sampled_metrics();
  plan.missing.resize(metrics.size());
  for (size_t i = 0; i < metrics.size(); ++i) {
    std::vector<SamplingWindow> tried = plan.windows;
    tried.emplace_back();
    bool placed = false;
    for (size_t w = 0; w < tried.size() && !placed; ++w) {
      const auto name = fitting_name(metrics[i], tried[w], passes);
      if (!name) continue;
      if (w == plan.windows.size()) plan.windows.emplace_back();
      plan.windows[w].metrics.push_back(i);
      plan.windows[w].called.push_back(*name);
      placed = true;
    }
    if (!placed) plan.missing[i] = why_nowhere(metrics[i], passes);
  }
  return plan;
}

std::vector<SampledValue> summarise(const SamplingWindow& window,
                                    const std::vector<CounterSample>& samples, double window_s) {
  const Samples used = Samples(samples).subspan(std::min<size_t>(1, samples.size()));
  const std::string fault = fault_of(used, window_s);
  std::vector<SampledValue> values(window.metrics.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (fault.empty()) values[i] = value_of(used, i);
    if (!fault.empty()) values[i].missing_reason = fault;
    values[i].called = window.called[i];
    if (!used.empty()) values[i].interval_s = seconds_of(used) / static_cast<double>(used.size());
  }
  return values;
}

}  // namespace noisemark::suite
