#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/base/statistics.h"
#include "reports/render/report_sections.h"
#include "reports/result/metrics.h"

namespace noisemark::reports::sections {
namespace {

constexpr double kLowTail = 0.05;
constexpr double kHighTail = 0.95;
constexpr double kWorthTelling = 0.0005;  // share of a step: 0.1 % when rounded

void add_row(MarkdownTable& table, const std::string& name, const std::vector<double>& values,
             double step_s) {
  if (values.empty()) {
    table.add_row({name, std::string(kMissing), "", "", ""});
    return;
  }
  const double middle_s = median(values);
  table.add_row({name, format_ms(middle_s), step_s > 0 ? format_percent(middle_s / step_s) : "",
                 format_ms(quantile(values, kLowTail)), format_ms(quantile(values, kHighTail))});
}

// The rest of each step beside its phases.
std::vector<double> rest_of(const Samples& samples) {
  std::vector<double> rest = samples.step_s;
  for (const SamplePhase& phase : kSamplePhases) {
    const auto& values = samples.*phase.seconds;
    for (size_t i = 0; i < std::min(rest.size(), values.size()); ++i) rest[i] -= values[i];
  }
  return rest;
}

std::string left_out(const Protocol& protocol) {
  const char* unsteady = "**no end of the warm-up was found** (see Noise), and ";
  if (protocol.warmup_steps == 0) {
    return fmt::format("{}no step is left out", protocol.warmup_stable ? "" : unsteady);
  }
  const std::string first = protocol.warmup_steps == 1
                                ? "the first step is"
                                : fmt::format("the first {} steps are", protocol.warmup_steps);
  return protocol.warmup_stable ? first + " warm-up and left out" : unsteady + first + " left out";
}

// An average that is updated in few of the steps is in no median.
std::string rare_average(const std::vector<double>& ema_s, double step_s) {
  if (ema_s.empty() || !(step_s > 0)) return "";
  const double mean_s =
      std::accumulate(ema_s.begin(), ema_s.end(), 0.0) / static_cast<double>(ema_s.size());
  const double beyond_s = mean_s - median(ema_s);
  if (beyond_s < kWorthTelling * step_s) return "";
  return fmt::format(
      "EMA is not due in every step: spread over all of them it takes {} ms ({}), of which the "
      "median step has {} ms.\n",
      format_ms(mean_s), format_percent(mean_s / step_s), format_ms(median(ema_s)));
}

}  // namespace

std::string step_time(const Result& result, const std::string& plot) {
  const std::vector<double> steps = steady_steps(result, result.samples.step_s);
  std::string text = "## Time of a step\n\n";
  if (steps.empty()) return text + not_measured("no step was timed after the warm-up");
  const double step_s = median(steps);
  MarkdownTable table({{"phase"},
                       {"median (ms)", Align::kRight},
                       {"share", Align::kRight},
                       {"5th percentile (ms)", Align::kRight},
                       {"95th percentile (ms)", Align::kRight}});
  for (const SamplePhase& phase : kSamplePhases) {
    add_row(table, std::string(phase.name), steady_steps(result, result.samples.*phase.seconds),
            step_s);
  }
  add_row(table, "everything else", steady_steps(result, rest_of(result.samples)), step_s);
  add_row(table, "**step**", steps, step_s);
  text += table.text();
  text += fmt::format(
      "\nThe table is of {} of {} steps; {}. Shares are of the median "
      "step; shares of medians need not add up to 100 %.\n",
      format_count(static_cast<int64_t>(steps.size())),
      format_count(static_cast<int64_t>(result.samples.step_s.size())), left_out(result.protocol));
  text += rare_average(steady_steps(result, result.samples.ema_s), step_s);
  text += plot;
  return text;
}

std::string speed_in_short(const Result& result) {
  const std::vector<double> steps = steady_steps(result, result.samples.step_s);
  const double step_s = steps.empty() ? 0 : median(steps);
  if (!(step_s > 0)) return "";
  std::string_view longest;
  double longest_s = 0;
  for (const SamplePhase& phase : kSamplePhases) {
    const auto values = steady_steps(result, result.samples.*phase.seconds);
    const double middle_s = values.empty() ? 0 : median(values);
    if (middle_s <= longest_s) continue;
    longest = phase.name;
    longest_s = middle_s;
  }
  std::string text = fmt::format("a step of {} images takes {}",
                                 format_count(result.protocol.batch), format_seconds(step_s));
  if (longest_s > 0) {
    text += fmt::format(", of which {} is {}", format_percent(longest_s / step_s), longest);
  }
  if (result.utilization.measured) {
    text +=
        fmt::format("; training does {} of the operations per second of the fastest matrix product",
                    format_percent(result.utilization.mfu_frac));
  }
  return text;
}

std::string slower(double overhead_frac) {
  return format_percent(std::abs(overhead_frac)) + (overhead_frac < 0 ? " faster" : " slower");
}

std::string operators(const Result& result) {
  constexpr size_t kMostRows = 15;
  constexpr size_t kWidestName = 52;  // leaves room for five columns of figures
  const Utilization& use = result.utilization;
  std::string text = "## Operators\n\n";
  if (!use.measured) return text + not_measured(use.missing_reason);
  if (use.operators.empty()) return text + "None was recorded.\n";
  MarkdownTable table({{"operator"},
                       {"calls", Align::kRight},
                       {"self (ms)", Align::kRight},
                       {"share of all operators", Align::kRight},
                       {"work", Align::kRight},
                       {"rate", Align::kRight}});
  const size_t shown = std::min(kMostRows, use.operators.size());
  for (size_t i = 0; i < shown; ++i) {
    const OperatorRow& row = use.operators[i];
    const auto flop = static_cast<double>(row.flops);
    const bool counted = row.flops > 0;
    table.add_row({code(shortened(row.name, kWidestName)), format_count(row.calls),
                   format_ms(row.self_s), format_percent(row.share_frac),
                   counted ? format_flop(flop) : "",
                   counted && row.self_s > 0 ? format_flop_per_s(flop / row.self_s) : ""});
  }
  text += table.text();
  text += fmt::format(
      "\nThe table lists {} of {} operators, per step and by falling self time. They were measured "
      "in a pass of their own ({} steps), which was {} than {}.\n",
      shown, use.operators.size(), result.protocol.profile_steps,
      slower(use.profiler_overhead_frac),
      result.memory.training.repeated_steps > 0 ? "steps that the host issues" : "training");
  return text + convolutions(result);
}

std::string noise(const Result& result) {
  const std::vector<double> steps = steady_steps(result, result.samples.step_s);
  std::string text = "## Noise\n\n";
  text += fmt::format("{} ({}).\n",
                      result.protocol.warmup_reason.empty()
                          ? "The end of the warm-up was not looked for"
                          : "Warm-up: " + plain(result.protocol.warmup_reason),
                      result.protocol.warmup_stable ? "steady after it" : "**not steady**");
  if (steps.empty()) return text;
  const double middle_s = median(steps);
  const double deviation_s = median_absolute_deviation(steps);
  MarkdownTable table(
      {{"of the step time"}, {"value", Align::kRight}, {"of the median", Align::kRight}});
  const auto add = [&](const std::string& name, double value_s) {
    table.add_row(
        {name, format_ms(value_s) + " ms", middle_s > 0 ? format_percent(value_s / middle_s) : ""});
  };
  add("smallest", quantile(steps, 0));
  add("first quartile", quantile(steps, 0.25));
  add("median", middle_s);
  add("third quartile", quantile(steps, 0.75));
  add("largest", quantile(steps, 1));
  add("median absolute deviation", deviation_s);
  if (const auto interval = median_interval(steps)) {
    add("95 % interval of the median, low", interval->low);
    add("95 % interval of the median, high", interval->high);
  }
  text += fmt::format("\n{}", table.text());
  text += fmt::format(
      "\nThe figures are of {} steps of one process. The interval is between order statistics and "
      "describes this run; another process may differ by more.\n",
      format_count(static_cast<int64_t>(steps.size())));
  return text;
}

namespace {

std::string scaling_words(const MixedPrecision& mixed) {
  if (!mixed.loss_scale) return "";
  return fmt::format("The scale of the loss was {} after the last step.\n\n",
                     format_number(*mixed.loss_scale));
}

std::string wide_table(const MixedPrecision& mixed) {
  MarkdownTable table({{"operator"}, {"calls", Align::kRight}, {"results (MiB)", Align::kRight}});
  for (const WideOperator& one : mixed.wide) {
    table.add_row({code(one.name), format_count(one.calls), format_mib(one.result_bytes)});
  }
  return table.text();
}

std::string wide_words(const MixedPrecision& mixed) {
  if (mixed.type.empty()) return "";
  if (!mixed.measured)
    return "The operators that stayed in float32 are not known. " +
           not_measured(mixed.missing_reason);
  if (mixed.wide.empty()) {
    return fmt::format("All {} operators of a forward pass computed in {}.\n",
                       format_count(mixed.operators), plain(mixed.type));
  }
  int64_t calls = 0;
  for (const WideOperator& one : mixed.wide) calls += one.calls;
  return fmt::format(
      "Under autocast to {} these operators stayed in float32: {} of the {} calls with a "
      "floating-point result in one forward pass.\n\n{}",
      plain(mixed.type), format_count(calls), format_count(mixed.operators), wide_table(mixed));
}

}  // namespace

std::string mixed_precision(const Result& result) {
  const MixedPrecision& mixed = result.mixed_precision;
  if (mixed.type.empty() && !mixed.loss_scale) return "";
  return "## Mixed precision\n\n" + scaling_words(mixed) + wide_words(mixed);
}

}  // namespace noisemark::reports::sections
