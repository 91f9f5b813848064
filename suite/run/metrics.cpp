#include "suite/run/metrics.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>

#include "reports/mode_ratios.h"
#include "reports/statistics.h"

namespace noisemark::suite {
namespace {

using reports::Direction;
using reports::Metric;
using reports::Result;

Metric exact(const std::string& name, const std::string& unit, Direction direction, double value) {
  Metric metric;
  metric.name = name;
  metric.unit = unit;
  metric.direction = direction;
  metric.value = value;
  metric.statistic = "exact";
  metric.n = 1;
  return metric;
}

Metric missing(const std::string& name, const std::string& unit, Direction direction,
               const std::string& reason) {
  Metric metric;
  metric.name = name;
  metric.unit = unit;
  metric.direction = direction;
  metric.missing_reason = reason;
  return metric;
}

Metric median_of(const std::string& name, const std::vector<double>& samples,
                 const std::string& unit, Direction direction) {
  if (samples.empty()) return missing(name, unit, direction, "no step after the warm-up");
  Metric metric = exact(name, unit, direction, reports::median(samples));
  metric.statistic = "median";
  metric.n = static_cast<int64_t>(samples.size());
  metric.ci95 = reports::median_interval(samples);
  metric.method = "order statistics of the steps after the warm-up";
  return metric;
}

/// The reciprocal of the step time keeps the interval's coverage: the median commutes with it.
Metric throughput(const Result& result, const Metric& step) {
  if (!step.value) {
    return missing("images_per_s", "images/s", Direction::kHigher, step.missing_reason);
  }
  const auto batch = static_cast<double>(result.protocol.batch);
  Metric metric = exact("images_per_s", "images/s", Direction::kHigher, batch / *step.value);
  metric.statistic = "median";
  metric.n = step.n;
  metric.method =
      "batch / median step: data wait, optimizer and, where it is due, EMA included; no evaluation";
  if (step.ci95) metric.ci95 = reports::Interval{batch / step.ci95->high, batch / step.ci95->low};
  return metric;
}

void add_time(const Result& result, std::vector<Metric>& metrics) {
  const reports::Samples& samples = result.samples;
  const auto steady_of = [&](const std::vector<double>& values) {
    return steady(values, result.protocol.warmup_steps);
  };
  const Metric step = median_of("step_s", steady_of(samples.step_s), "s", Direction::kLower);
  metrics.push_back(throughput(result, step));
  metrics.push_back(step);
  const std::pair<const char*, const std::vector<double>*> parts[] = {
      {"data_wait_s", &samples.data_wait_s},
      {"forward_s", &samples.forward_s},
      {"backward_s", &samples.backward_s},
      {"optimizer_s", &samples.optimizer_s},
      {"ema_s", &samples.ema_s}};
  for (const auto& [name, values] : parts) {
    metrics.push_back(median_of(name, steady_of(*values), "s", Direction::kNeutral));
  }
}

void add_memory(const Result& result, std::vector<Metric>& metrics) {
  const reports::MemorySection& memory = result.memory;
  const std::pair<const char*, int64_t> figures[] = {{"peak_bytes", memory.peak_bytes},
                                                     {"saved_bytes", memory.saved_bytes},
                                                     {"peak_saved_bytes", memory.peak_saved_bytes},
                                                     {"leaked_bytes", memory.leaked_bytes}};
  for (const auto& [name, bytes] : figures) {
    metrics.push_back(memory.measured
                          ? exact(name, "bytes", Direction::kLower, static_cast<double>(bytes))
                          : missing(name, "bytes", Direction::kLower, memory.missing_reason));
  }
}

/// Times fewer bytes than mode "none" of baseline "plain".
Metric factor(const std::string& name, const std::optional<int64_t>& plain, int64_t under_mode) {
  const std::optional<double> times = reports::times_fewer(plain, under_mode);
  return times ? exact(name, "1", Direction::kHigher, *times)
               : missing(name, "1", Direction::kHigher, "no bytes to divide");
}

void add_memory_mode(const Result& result, std::vector<Metric>& metrics) {
  const reports::MemoryMode& mode = result.memory_mode;
  if (result.identity.mode == "none" || !mode.measured) return;
  if (result.memory.measured) {
    const reports::MemorySection& memory = result.memory;
    metrics.push_back(factor("peak_factor", mode.plain.peak_bytes, memory.peak_bytes));
    metrics.push_back(factor("saved_factor", mode.plain.saved_bytes, memory.saved_bytes));
    metrics.push_back(
        factor("peak_saved_factor", mode.plain.peak_saved_bytes, memory.peak_saved_bytes));
    metrics.push_back(exact("encoded_bytes", "bytes", Direction::kNeutral,
                            static_cast<double>(mode.encoded_bytes)));
  }
  const reports::Overhead& overhead = mode.overhead;
  if (!overhead.frac) {
    metrics.push_back(missing("overhead_frac", "frac", Direction::kLower, overhead.missing_reason));
  } else {
    Metric metric = exact("overhead_frac", "frac", Direction::kLower, *overhead.frac);
    metric.statistic = "Hodges-Lehmann";
    metric.ci95 = overhead.ci95;
    metric.n = static_cast<int64_t>(overhead.step_s.size());
    metric.method = "ratios of step times in turns beside none in one process, bootstrap interval";
    metrics.push_back(metric);
  }
  const reports::GradientError& error = mode.gradient_error;
  metrics.push_back(
      error.error_frac
          ? exact("gradient_error", "frac", Direction::kLower, *error.error_frac)
          : missing("gradient_error", "frac", Direction::kLower, error.missing_reason));
}

void add_utilization(const Result& result, std::vector<Metric>& metrics) {
  const reports::Utilization& use = result.utilization;
  metrics.push_back(
      use.parameters > 0
          ? exact("parameters", "count", Direction::kNeutral, static_cast<double>(use.parameters))
          : missing("parameters", "count", Direction::kNeutral, "training did not begin"));
  if (!use.measured) {
    for (const char* name : {"flop_per_image", "achieved_flop_per_s", "mfu_frac"}) {
      metrics.push_back(missing(name, "", Direction::kNeutral, use.missing_reason));
    }
    return;
  }
  const auto flop = static_cast<double>(use.forward_flop_per_image + use.backward_flop_per_image);
  metrics.push_back(exact("flop_per_image", "FLOP", Direction::kNeutral, flop));
  if (!images_per_second(result)) {
    for (const char* name : {"achieved_flop_per_s", "mfu_frac"}) {
      metrics.push_back(missing(name, "", Direction::kHigher, "no step after the warm-up"));
    }
    return;
  }
  metrics.push_back(
      exact("achieved_flop_per_s", "FLOP/s", Direction::kHigher, use.achieved_flop_per_s));
  metrics.push_back(exact("mfu_frac", "frac", Direction::kHigher, use.mfu_frac));
}

/// Of a GPU alone, under the columns' names.
void add_device_use(const Result& result, std::vector<Metric>& metrics) {
  for (const reports::DeviceColumn& column : result.utilization.device_use.columns) {
    const Direction direction =
        column.name == "energy_per_image" ? Direction::kLower : Direction::kNeutral;
    const std::string name = "gpu_" + column.name;
    if (!column.value) {
      metrics.push_back(missing(name, column.unit, direction, column.missing_reason));
      continue;
    }
    Metric metric = exact(name, column.unit, direction, *column.value);
    metric.statistic = column.readings > 0 ? "mean" : "over one window";
    metric.n = std::max<int64_t>(1, column.readings);
    metric.method = column.source;
    metrics.push_back(metric);
  }
}

void add_quality(const Result& result, std::vector<Metric>& metrics) {
  const reports::Quality& quality = result.quality;
  if (quality.evaluations.empty()) {
    metrics.push_back(missing("val_loss", "1", Direction::kLower, "no evaluation was made"));
    return;
  }
  const reports::Evaluation& first = quality.evaluations.front();
  const reports::Evaluation& last = quality.evaluations.back();
  metrics.push_back(exact("val_loss", "1", Direction::kLower, last.loss));
  metrics.push_back(exact("val_loss_weighted", "1", Direction::kLower, last.weighted_loss));
  metrics.push_back(exact("val_loss_initial", "1", Direction::kNeutral, first.loss));
  if (last.excess_frac) {
    metrics.push_back(exact("excess_loss", "frac", Direction::kLower, *last.excess_frac));
  }
  metrics.push_back(
      quality.time_to_quality_s
          ? exact("time_to_quality_s", "s", Direction::kLower, *quality.time_to_quality_s)
          : missing("time_to_quality_s", "s", Direction::kLower, quality.missing_reason));
  metrics.push_back(
      quality.samples_to_quality
          ? exact("samples_to_quality", "images", Direction::kLower,
                  static_cast<double>(*quality.samples_to_quality))
          : missing("samples_to_quality", "images", Direction::kLower, quality.missing_reason));
}

}  // namespace

std::vector<double> steady(const std::vector<double>& samples, int64_t warmup_steps) {
  const auto drop = std::min<int64_t>(warmup_steps, static_cast<int64_t>(samples.size()));
  return {samples.begin() + drop, samples.end()};
}

std::optional<double> images_per_second(const Result& result) {
  const std::vector<double> steps = steady(result.samples.step_s, result.protocol.warmup_steps);
  if (steps.empty()) return std::nullopt;
  return static_cast<double>(result.protocol.batch) / reports::median(steps);
}

std::vector<Metric> derive_metrics(const Result& result, std::optional<int64_t> skipped_steps) {
  std::vector<Metric> metrics;
  add_time(result, metrics);
  if (skipped_steps) {
    metrics.push_back(
        exact("skipped_steps", "count", Direction::kNeutral, static_cast<double>(*skipped_steps)));
  }
  add_memory(result, metrics);
  add_memory_mode(result, metrics);
  add_utilization(result, metrics);
  add_device_use(result, metrics);
  add_quality(result, metrics);
  return metrics;
}

Metric energy_metric(const EnergyUsed& used) {
  if (!used.joules) return missing("energy_j", "J", Direction::kNeutral, used.missing_reason);
  Metric metric = exact("energy_j", "J", Direction::kNeutral, *used.joules);
  metric.method = used.method + ": training with its evaluations, and whatever else ran meanwhile";
  return metric;
}

}  // namespace noisemark::suite
