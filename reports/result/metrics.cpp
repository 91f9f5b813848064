#include "reports/result/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/base/statistics.h"
#include "reports/result/result_fields.h"

namespace noisemark::reports {
namespace {

using Value = std::optional<MetricValue>;

constexpr const char* kNoSteadyStep = "no step after the warm-up";

MetricValue exact(double value) {
  return {.value = value};
}

MetricValue missing(std::string reason) {
  return {.missing_reason = std::move(reason)};
}

template <typename Number>
MetricValue exact_or_missing(const std::optional<Number>& number, const std::string& reason) {
  return number ? exact(static_cast<double>(*number)) : missing(reason);
}

/// The median over the steps after the warm-up of one of the samples of a run.
template <auto Part>
Value median_step(const Result& result) {
  const std::vector<double> samples = steady_steps(result, result.samples.*Part);
  if (samples.empty()) return missing(kNoSteadyStep);
  return MetricValue{.value = median(samples),
                     .statistic = "median",
                     .ci95 = median_interval(samples),
                     .n = static_cast<int64_t>(samples.size()),
                     .method = "order statistics of the steps after the warm-up"};
}

/// The reciprocal of the step time keeps the interval's coverage: the median commutes with it.
Value throughput(const Result& result) {
  MetricValue step = *median_step<&Samples::step_s>(result);
  if (!step.value) return step;
  const auto batch = static_cast<double>(result.protocol.batch);
  step.value = batch / *step.value;
  step.method =
      "batch / median step: data wait, optimizer and, where it is due, EMA included; no evaluation";
  if (step.ci95) step.ci95 = Interval{batch / step.ci95->high, batch / step.ci95->low};
  return step;
}

template <auto Figure>
Value step_bytes(const Result& result) {
  const MemorySection& memory = result.memory;
  if (!memory.measured) return missing(memory.missing_reason);
  return exact(static_cast<double>(memory.*Figure));
}

bool is_under_a_mode(const Result& result) {
  return result.identity.has_mode() && result.memory_mode.measured;
}

/// Returns how many times fewer bytes it is than under mode "none" of baseline "plain".
template <auto Plain, auto Figure>
Value factor(const Result& result) {
  if (!is_under_a_mode(result) || !result.memory.measured) return std::nullopt;
  return exact_or_missing(times_fewer(result.memory_mode.plain.*Plain, result.memory.*Figure),
                          "no bytes to divide");
}

Value encoded_bytes(const Result& result) {
  if (!is_under_a_mode(result) || !result.memory.measured) return std::nullopt;
  return exact(static_cast<double>(result.memory_mode.encoded_bytes));
}

Value overhead(const Result& result) {
  if (!is_under_a_mode(result)) return std::nullopt;
  const Overhead& overhead = result.memory_mode.overhead;
  if (!overhead.frac) return missing(overhead.missing_reason);
  return MetricValue{
      .value = overhead.frac,
      .statistic = "Hodges-Lehmann",
      .ci95 = overhead.ci95,
      .n = static_cast<int64_t>(overhead.step_s.size()),
      .method = "ratios of step times in turns beside none in one process, bootstrap interval"};
}

Value gradient_error(const Result& result) {
  if (!is_under_a_mode(result)) return std::nullopt;
  const GradientError& error = result.memory_mode.gradient_error;
  return exact_or_missing(error.error_frac, error.missing_reason);
}

Value parameters(const Result& result) {
  const int64_t count = result.utilization.parameters;
  return count > 0 ? exact(static_cast<double>(count)) : missing("training did not begin");
}

Value flop_per_image(const Result& result) {
  const Utilization& use = result.utilization;
  if (!use.measured) return missing(use.missing_reason);
  return exact(static_cast<double>(use.forward_flop_per_image + use.backward_flop_per_image));
}

/// A figure of the profile over the rate of the training.
template <auto Figure>
Value utilization(const Result& result) {
  const Utilization& use = result.utilization;
  if (!use.measured) return missing(use.missing_reason);
  return images_per_second(result) ? exact(use.*Figure) : missing(kNoSteadyStep);
}

/// The loss of the trained weights is that of an evaluation after the last step; a training that
/// was cut short has none. It is empty where it has one.
std::string why_not_evaluated(const Result& result) {
  const std::vector<Evaluation>& all = result.quality.evaluations;
  if (all.empty()) return "no evaluation was made";
  const int64_t last = all.back().step;
  if (last > 0 && last >= result.protocol.steps) return "";
  return fmt::format("the last evaluation was {}, and the training ended after step {}",
                     last == 0 ? "at the start" : fmt::format("after step {}", last),
                     result.protocol.steps);
}

template <auto Figure>
Value last_loss(const Result& result) {
  if (result.quality.evaluations.empty()) return std::nullopt;
  const std::string reason = why_not_evaluated(result);
  return reason.empty() ? exact(result.quality.evaluations.back().*Figure) : missing(reason);
}

Value validation_loss(const Result& result) {
  const Value loss = last_loss<&Evaluation::loss>(result);
  return loss ? *loss : missing(why_not_evaluated(result));
}

Value first_loss(const Result& result) {
  const std::vector<Evaluation>& all = result.quality.evaluations;
  if (all.empty()) return std::nullopt;
  return exact(all.front().loss);
}

Value excess_loss(const Result& result) {
  const std::vector<Evaluation>& all = result.quality.evaluations;
  if (all.empty() || !all.back().excess_frac) return std::nullopt;
  const std::string reason = why_not_evaluated(result);
  return reason.empty() ? exact(*all.back().excess_frac) : missing(reason);
}

/// Returns what the training had spent when an evaluation first saw its target reached.
template <auto Spent>
Value to_quality(const Result& result) {
  const Quality& quality = result.quality;
  if (quality.evaluations.empty()) return std::nullopt;
  return exact_or_missing(quality.*Spent, quality.missing_reason);
}

double elapsed_s(const Evaluation& evaluation) {
  return evaluation.elapsed_s;
}

double samples_seen(const Evaluation& evaluation) {
  return static_cast<double>(evaluation.samples_seen);
}

constexpr auto kLower = Direction::kLower;
constexpr auto kHigher = Direction::kHigher;
constexpr std::string_view kDeviceColumns = "gpu_*";

constexpr MetricRow kTable[] = {
    {.name = kRateMetric,
     .unit = "images/s",
     .direction = kHigher,
     .of = throughput,
     .rule = MetricRule::kGated,
     .gate_margin_frac = 0.03,
     .cause = MetricCause::kMachine,
     .followed = true,
     .column = "images/s [95 %]",
     .in_sweeps = true,
     .spoken = "throughput",
     .summary = "the batch over the median step"},
    {.name = "step_s",
     .unit = "s",
     .direction = kLower,
     .of = median_step<&Samples::step_s>,
     .cause = MetricCause::kMachine,
     .summary = "the median time of an optimizer step after the warm-up"},
    {.name = "data_wait_s",
     .unit = "s",
     .of = median_step<&Samples::data_wait_s>,
     .cause = MetricCause::kMachine,
     .summary = "the step's wait for data"},
    {.name = "forward_s",
     .unit = "s",
     .of = median_step<&Samples::forward_s>,
     .cause = MetricCause::kMachine,
     .summary = "the step's forward passes"},
    {.name = "backward_s",
     .unit = "s",
     .of = median_step<&Samples::backward_s>,
     .cause = MetricCause::kMachine,
     .summary = "the step's backward passes"},
    {.name = "optimizer_s",
     .unit = "s",
     .of = median_step<&Samples::optimizer_s>,
     .cause = MetricCause::kMachine,
     .summary = "the step's optimizer"},
    {.name = "ema_s",
     .unit = "s",
     .of = median_step<&Samples::ema_s>,
     .cause = MetricCause::kMachine,
     .summary = "the step's update of the averaged weights"},
    {.name = kSkippedMetric,
     .unit = "count",
     .summary = "steps that loss scaling left out; fp16 alone"},
    {.name = "peak_bytes",
     .unit = "bytes",
     .direction = kLower,
     .of = step_bytes<&MemorySection::peak_bytes>,
     .rule = MetricRule::kMayFall,
     .followed = true,
     .column = "peak",
     .in_sweeps = true,
     .spoken = "peak memory",
     .summary = "the most live bytes of all owners in one training step"},
    {.name = "saved_bytes",
     .unit = "bytes",
     .direction = kLower,
     .of = step_bytes<&MemorySection::saved_bytes>,
     .rule = MetricRule::kMayFall,
     .column = "saved for backward",
     .in_sweeps = true,
     .summary = "bytes that forward leaves: held for backward, and the prediction and losses"},
    {.name = "peak_saved_bytes",
     .unit = "bytes",
     .direction = kLower,
     .of = step_bytes<&MemorySection::peak_saved_bytes>,
     .rule = MetricRule::kMayFall,
     .summary = json::kPeakSavedWords},
    {.name = "leaked_bytes",
     .unit = "bytes",
     .direction = kLower,
     .of = step_bytes<&MemorySection::leaked_bytes>,
     .rule = MetricRule::kMayFall,
     .may_be_zero = true,
     .summary = "live bytes after a step beyond those before it"},
    {.name = "peak_factor",
     .unit = "1",
     .direction = kHigher,
     .of = factor<&StepBytes::peak_bytes, &MemorySection::peak_bytes>,
     .summary = "peak_bytes of none in plain, divided by those of the mode; memory modes alone"},
    {.name = "saved_factor",
     .unit = "1",
     .direction = kHigher,
     .of = factor<&StepBytes::saved_bytes, &MemorySection::saved_bytes>,
     .summary = "saved_bytes, likewise"},
    {.name = "peak_saved_factor",
     .unit = "1",
     .direction = kHigher,
     .of = factor<&StepBytes::peak_saved_bytes, &MemorySection::peak_saved_bytes>,
     .summary = "peak_saved_bytes, likewise"},
    {.name = "encoded_bytes",
     .unit = "bytes",
     .of = encoded_bytes,
     .summary = "those of saved_bytes that a codec holds encoded; memory modes alone"},
    {.name = "overhead_frac",
     .unit = "frac",
     .direction = kLower,
     .of = overhead,
     .cause = MetricCause::kMachine,
     .summary = "time that a memory mode adds to a step of none, in turns in one process"},
    {.name = "gradient_error",
     .unit = "frac",
     .direction = kLower,
     .of = gradient_error,
     .summary = "the relative error of one step's gradient beside none; lossy modes alone"},
    {.name = "parameters",
     .unit = "count",
     .of = parameters,
     .rule = MetricRule::kEqual,
     .summary = "trained parameters of the model"},
    {.name = "flop_per_image",
     .unit = "FLOP",
     .of = flop_per_image,
     .rule = MetricRule::kEqual,
     .pass = MetricPass::kProfile,
     .summary = "floating-point operations of forward and backward, by formulas"},
    {.name = "achieved_flop_per_s",
     .unit = "FLOP/s",
     .direction = kHigher,
     .of = utilization<&Utilization::achieved_flop_per_s>,
     .cause = MetricCause::kMachine,
     .section = "Utilization",
     .summary = "flop_per_image times images_per_s"},
    {.name = "mfu_frac",
     .unit = "frac",
     .direction = kHigher,
     .of = utilization<&Utilization::mfu_frac>,
     .cause = MetricCause::kMachine,
     .section = "Utilization",
     .summary = "achieved_flop_per_s over the measured peak of the device"},
    {.name = "gpu_kernel_busy",
     .unit = "frac",
     .cause = MetricCause::kMachine,
     .share = TimeShare{"GPU busy",
                        "GPU busy, its compute utilization: the time in which at least one kernel "
                        "ran, as a share of the elapsed time."},
     .summary = "the time in which a kernel ran, as a share of the elapsed time"},
    {.name = "gpu_fp32_active",
     .unit = "frac",
     .cause = MetricCause::kMachine,
     .share = TimeShare{"FP32",
                        "FP32, FP16 and tensor: the share of the elapsed time's cycles in which "
                        "units of that kind worked, by the GPU's counters. TBD's first definition "
                        "of FP32 utilization is the share of the peak's operations that were made: "
                        "that is the MFU of a run in fp32. Its later tools count instructions per "
                        "cycle over the most there can be, while kernels run; the report of a run "
                        "has both."},
     .summary = "the share of cycles in which units of FP32 worked"},
    {.name = "gpu_fp16_active",
     .unit = "frac",
     .cause = MetricCause::kMachine,
     .share = TimeShare{"FP16"},
     .summary = "the same of units of FP16"},
    {.name = "gpu_tensor_active",
     .unit = "frac",
     .cause = MetricCause::kMachine,
     .share = TimeShare{"tensor"},
     .summary = "the same of tensor cores"},
    {.name = "cpu_frac",
     .unit = "frac",
     .cause = MetricCause::kMachine,
     .section = "Utilization",
     .share = TimeShare{"CPU",
                        "CPU: the time that the process was on processors, all its threads "
                        "together, as a share of elapsed time x LibTorch's threads. More than "
                        "100 % means that other threads, as the loader's, worked too. TBD divides "
                        "by all of the machine's cores."},
     .summary = "time on processors over wall time, as a share of LibTorch's threads"},
    {.name = kDeviceColumns,
     .unit = "its column's",
     .cause = MetricCause::kMachine,
     .summary = "other columns of the GPU's use, as gpu_power; gpu_energy_per_image should fall"},
    {.name = kLossMetric,
     .unit = "1",
     .direction = kLower,
     .of = validation_loss,
     .rule = MetricRule::kGated,
     .gate_margin_frac = 0.01,
     .cause = MetricCause::kModel,
     .followed = true,
     .section = "Quality",
     .column = "val loss",
     .spoken = "validation loss",
     .study = StudyRule{.margin = 0.01, .described = true},
     .summary = "the unweighted validation loss after the last step"},
    {.name = "val_loss_weighted",
     .unit = "1",
     .direction = kLower,
     .of = last_loss<&Evaluation::weighted_loss>,
     .cause = MetricCause::kModel,
     .section = "Quality",
     .study = StudyRule{.margin = 0.01, .described = true},
     .summary = "the validation loss as training weights it"},
    {.name = "val_loss_initial",
     .unit = "1",
     .of = first_loss,
     .summary = "the validation loss before the first step"},
    {.name = "excess_loss",
     .unit = "frac",
     .direction = kLower,
     .of = excess_loss,
     .cause = MetricCause::kModel,
     .section = "Quality",
     .summary = "val_loss beyond the Bayes-optimal loss, where that is known"},
    {.name = "time_to_quality_s",
     .unit = "s",
     .direction = kLower,
     .of = to_quality<&Quality::time_to_quality_s>,
     .cause = MetricCause::kMachine,
     .section = "Quality",
     .study = StudyRule{.margin = 0.03, .described = true, .spent = elapsed_s},
     .summary = "time until the target loss was reached, evaluations counted"},
    {.name = "samples_to_quality",
     .unit = "images",
     .direction = kLower,
     .of = to_quality<&Quality::samples_to_quality>,
     .section = "Quality",
     .study = StudyRule{.margin = 0.10, .described = true, .spent = samples_seen},
     .summary = "images that were trained on until the target loss was reached"},
    {.name = "energy_j",
     .unit = "J",
     .cause = MetricCause::kMachine,
     .summary = "energy of processor or GPU from the first step to the end of training"},
    {.name = "fid",
     .unit = "1",
     .direction = kLower,
     .cause = MetricCause::kModel,
     .study = StudyRule{.margin = 0.05, .fewest_seeds = 5},
     .summary = "Fréchet distance of samples by the Inception network of 2015"},
    {.name = "kid",
     .unit = "1",
     .direction = kLower,
     .cause = MetricCause::kModel,
     .may_be_zero = true,
     .study = StudyRule{},
     .summary = "kernel distance by the same network, unbiased and so maybe negative"},
    {.name = "cifarnet_distance",
     .unit = "1",
     .direction = kLower,
     .cause = MetricCause::kModel,
     .study = StudyRule{},
     .summary = "Fréchet distance of samples by a small network trained on CIFAR-10"},
    {.name = "*_kernel_distance",
     .unit = "1",
     .direction = kLower,
     .cause = MetricCause::kModel,
     .may_be_zero = true,
     .summary = "kernel distance of samples by another extractor"},
    {.name = "*_precision",
     .unit = "1",
     .direction = kHigher,
     .cause = MetricCause::kModel,
     .may_be_zero = true,
     .summary = "share of samples that lie among the reference's"},
    {.name = "*_recall",
     .unit = "1",
     .direction = kHigher,
     .cause = MetricCause::kModel,
     .may_be_zero = true,
     .summary = "share of the reference that lies among the samples"},
};

bool fits(std::string_view pattern, std::string_view name) {
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  if (pattern.starts_with('*')) return name.ends_with(pattern.substr(1));
  return false;
}

Metric metric_of(std::string name, std::string unit, Direction direction, MetricValue value) {
  Metric metric;
  metric.name = std::move(name);
  metric.unit = std::move(unit);
  metric.direction = direction;
  if (!value.value) {
    metric.missing_reason = std::move(value.missing_reason);
    return metric;
  }
  metric.value = value.value;
  metric.statistic = std::move(value.statistic);
  metric.ci95 = value.ci95;
  metric.n = value.n;
  metric.method = std::move(value.method);
  return metric;
}

/// The columns of a GPU's utilization bring their own names and units.
std::vector<Metric> device_metrics(const Result& result) {
  std::vector<Metric> metrics;
  for (const DeviceColumn& column : result.utilization.device_use.columns) {
    metrics.push_back(metric_of("gpu_" + column.name, column.unit,
                                column.name == "energy_per_image" ? kLower : Direction::kNeutral,
                                {.value = column.value,
                                 .missing_reason = column.missing_reason,
                                 .statistic = column.readings > 0 ? "mean" : "over one window",
                                 .n = std::max<int64_t>(1, column.readings),
                                 .method = column.source}));
  }
  return metrics;
}

std::string direction_words(Direction direction) {
  return direction == Direction::kNeutral ? "" : std::string(json::name_of(direction));
}

std::string margin_words(double frac) {
  return fmt::format("margin {} %", format_number(100 * frac));
}

std::string rule_words(const MetricRow& row) {
  switch (row.rule) {
    case MetricRule::kEqual:
      return "must be equal";
    case MetricRule::kMayFall:
      return "may only fall";
    case MetricRule::kGated:
      return margin_words(row.gate_margin_frac);
    case MetricRule::kDescribed:
      break;
  }
  return "";
}

std::string study_words(const MetricRow& row) {
  if (!row.study) return "";
  std::string words =
      row.study->margin > 0 ? margin_words(row.study->margin) : "margin to be given";
  if (row.may_be_zero) words += ", by differences";
  const int64_t fewest = row.study->fewest_seeds;
  return fewest > StudyRule().fewest_seeds ? fmt::format("{}, {} seeds or more", words, fewest)
                                           : words;
}

}  // namespace

std::span<const MetricRow> metric_table() {
  return kTable;
}

const MetricRow* find_metric_row(std::string_view name) {
  for (const MetricRow& row : kTable) {
    if (row.name == name) return &row;
  }
  for (const MetricRow& row : kTable) {
    if (fits(row.name, name)) return &row;
  }
  return nullptr;
}

std::string spoken_value(const MetricRow& row, double value) {
  // A rate has two decimals on every page.
  return row.name == kRateMetric ? fmt::format("{} {}", format_per_s(value), row.unit)
                                 : format_quantity(value, row.unit);
}

bool is_exact(const MetricRow& row) {
  return row.rule == MetricRule::kEqual || row.rule == MetricRule::kMayFall;
}

const std::set<std::string>& exact_metrics() {
  static const std::set<std::string> names = [] {
    std::set<std::string> all;
    for (const MetricRow& row : kTable) {
      if (is_exact(row)) all.emplace(row.name);
    }
    return all;
  }();
  return names;
}

const std::vector<MetricRow>& gated_metrics() {
  static const std::vector<MetricRow> rows = [] {
    std::vector<MetricRow> all;
    std::copy_if(std::begin(kTable), std::end(kTable), std::back_inserter(all),
                 [](const MetricRow& row) { return row.rule == MetricRule::kGated; });
    return all;
  }();
  return rows;
}

bool is_followed(std::string_view name) {
  const MetricRow* row = find_metric_row(name);
  return row != nullptr && row->followed;
}

Metric metric_named(std::string_view name, MetricValue value) {
  const MetricRow* row = find_metric_row(name);
  if (row == nullptr) throw std::logic_error(fmt::format("no metric is called {}", name));
  return metric_of(std::string(name), std::string(row->unit), row->direction, std::move(value));
}

std::vector<Metric> derive_metrics(const Result& result, const std::vector<Metric>& given) {
  for (const Metric& metric : given) {
    if (find_metric_row(metric.name) == nullptr) {
      throw std::logic_error("no metric is called " + metric.name);
    }
  }
  std::vector<Metric> metrics;
  for (const MetricRow& row : kTable) {
    if (row.name == kDeviceColumns) {
      for (Metric& metric : device_metrics(result)) metrics.push_back(std::move(metric));
    } else if (row.of != nullptr) {
      if (Value value = row.of(result)) metrics.push_back(metric_named(row.name, *value));
    } else {
      std::copy_if(given.begin(), given.end(), std::back_inserter(metrics),
                   [&](const Metric& metric) { return metric.name == row.name; });
    }
  }
  return metrics;
}

std::optional<double> times_fewer(const std::optional<int64_t>& plain, int64_t under_mode) {
  if (!plain || under_mode <= 0) return std::nullopt;
  return static_cast<double>(*plain) / static_cast<double>(under_mode);
}

std::vector<double> steady_steps(const Result& result, const std::vector<double>& samples) {
  const auto dropped = std::clamp<int64_t>(result.protocol.warmup_steps, 0, std::ssize(samples));
  return {samples.begin() + dropped, samples.end()};
}

std::optional<double> images_per_second(const Result& result) {
  return throughput(result)->value;
}

std::string metrics_markdown() {
  MarkdownTable table({{"metric"},
                       {"unit"},
                       {"better"},
                       {"judged by compare"},
                       {"judged over seeds"},
                       {"what it is"}});
  for (const MetricRow& row : kTable) {
    table.add_row({code(row.name), std::string(row.unit), direction_words(row.direction),
                   rule_words(row), study_words(row), std::string(row.summary)});
  }
  return "# Metrics\n\nThis page is made from the table in `metrics.cpp`; "
         "`NOISEMARK_UPDATE_GOLDEN=1 build/release/bin/reports_test` writes it again.\n\n"
         "A metric that must be equal or may only fall has no noise. One that is not judged stands "
         "in tables. `quality --gate METRIC=MARGIN` judges any metric over seeds.\n\n" +
         table.text();
}

}  // namespace noisemark::reports
