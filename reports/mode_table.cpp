#include "reports/mode_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "reports/gate.h"
#include "reports/markdown.h"
#include "reports/mode_ratios.h"
#include "reports/quantity.h"
#include "reports/report.h"
#include "reports/statistics.h"

namespace noisemark::reports {
namespace {

bool under_a_mode(const NamedResult& named) {
  return named.result.identity.mode != "none";
}

using Row = std::vector<std::string>;

std::string mib(const std::optional<int64_t>& bytes) {
  return bytes ? format_mib(*bytes) : "";
}

std::string percent(const std::optional<double>& frac) {
  return frac ? fmt::format("{:+.1f}", 100 * *frac) : "";
}

/// Measured, predicted, times fewer.
Row figure(const Result& result, std::optional<int64_t> StepBytes::*of, int64_t bytes) {
  const MemoryMode& mode = result.memory_mode;
  if (!result.memory.measured) return {"none", mib(mode.predicted.*of), ""};
  const std::optional<double> times = times_fewer(mode.plain.*of, bytes);
  return {format_mib(bytes), mib(mode.predicted.*of), times ? fmt::format("{:.2f}", *times) : ""};
}

/// Of the training pass; where that was too short, of the turns beside "none".
std::string rate(const Result& result) {
  const Metric* metric = find_metric(result, "images_per_s");
  if (metric != nullptr && metric->value) return format_per_s(*metric->value);
  const std::vector<double>& turns = result.memory_mode.overhead.step_s;
  if (turns.empty()) return "none";
  return format_per_s(static_cast<double>(result.protocol.batch) / median(turns));
}

std::string overhead(const Overhead& overhead) {
  std::string text = percent(overhead.frac);
  if (overhead.frac && overhead.ci95) {
    text += fmt::format(" [{}, {}]", percent(overhead.ci95->low), percent(overhead.ci95->high));
  }
  return text;
}

std::string proof(const MemoryMode& mode) {
  if (mode.certificate.verdict == Verdict::kPass) return "PASS";
  if (mode.certificate.verdict == Verdict::kFail) return "**FAIL**";
  if (mode.certificate.verdict == Verdict::kUnavailable) return "**UNAVAILABLE**";
  if (mode.lossless || !mode.gradient_error.error_frac) return "none";
  return "error " + format_number(*mode.gradient_error.error_frac);
}

/// Of a result from before fallbacks were counted in every pass.
std::string fallbacks_of_one_pass(const Result& result) {
  const MemoryMode& mode = result.memory_mode;
  if (result.protocol.memory_steps == 0) return "not measured";
  if (!mode.plan_missing_reason.empty()) return "no plan";
  return format_count(mode.kept_after_mismatch + mode.codec_fallbacks + mode.departures +
                      mode.host_memory.refused_tensors);
}

std::string fallbacks(const Result& result) {
  const std::vector<PassFallbacks>& passes = result.memory_mode.fallbacks;
  if (passes.empty()) return fallbacks_of_one_pass(result);
  int64_t all = 0;
  bool any = false;
  for (const PassFallbacks& one : passes) {
    if (!one.missing_reason.empty()) continue;
    if (!one.plan_missing_reason.empty()) return "no plan";
    all += one.kept_after_mismatch + one.replayed_after_mismatch + one.codec_fallbacks +
           one.departures;
    any = true;
  }
  // Of the memory pass, and 0 where it was not made.
  all += result.memory_mode.host_memory.refused_tensors;
  return any ? format_count(all) : "not measured";
}

/// What every table begins with.
Row name_of(const Result& result) {
  return {benchmark_name(result.identity) + (result.identity.custom ? " (custom)" : ""),
          result.identity.precision, result.identity.mode};
}

Row joined(Row row, const std::vector<Row>& more) {
  for (const Row& cells : more) row.insert(row.end(), cells.begin(), cells.end());
  return row;
}

Row bytes_row(const Result& result) {
  return joined(name_of(result),
                {figure(result, &StepBytes::peak_bytes, result.memory.peak_bytes),
                 figure(result, &StepBytes::saved_bytes, result.memory.saved_bytes)});
}

Row at_most_row(const Result& result) {
  const MemoryMode& mode = result.memory_mode;
  const bool encodes = result.identity.mode != "none" && result.memory.measured;
  const std::optional<double> at_most = most_times_fewer(mode);
  return joined(name_of(result),
                {figure(result, &StepBytes::peak_saved_bytes, result.memory.peak_saved_bytes),
                 {encodes ? format_mib(mode.encoded_bytes) : "", mib(mode.irreplaceable_bytes),
                  at_most ? fmt::format("{:.2f}", *at_most) : ""}});
}

Row time_row(const Result& result) {
  const MemoryMode& mode = result.memory_mode;
  const bool none = result.identity.mode == "none";
  return joined(name_of(result),
                {{rate(result), overhead(mode.overhead), percent(predicted_overhead_frac(mode)),
                  none ? "" : proof(mode), none ? "" : fallbacks(result)}});
}

Row fit_row(const Result& result) {
  const BatchFit& fit = result.batch_fit;
  const Row within = {format_mib(*fit.memory_bytes)};
  if (!fit.missing_reason.empty()) return joined(name_of(result), {within, {"none", "", ""}});
  return joined(name_of(result),
                {within,
                 {format_count(fit.batch), mib(fit.peak_bytes),
                  fit.next_peak_bytes ? format_mib(*fit.next_peak_bytes) : fit.next_words}});
}

std::vector<MarkdownTable::Column> columns(const std::vector<MarkdownTable::Column>& more) {
  std::vector<MarkdownTable::Column> all{{"benchmark"}, {"precision"}, {"mode"}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

constexpr const char* kBytesWords =
    "peak: of all owners. saved: held for backward when forward returns. predicted: by the plan, "
    "from the recorded step. factor: times fewer than none in plain.";
constexpr const char* kAtMostWords =
    "saved at most: over the step, with what is made again. encoded: of saved, in another form. "
    "stays: what no plan of the mode could make again, in the form in which it was saved; its "
    "factor: times fewer than none saves, which saved's factor goes beyond by other forms alone.";
constexpr const char* kTimeWords =
    "overhead: time of a step beside none, in turns in one process. certificate: PASS is bitwise "
    "none; UNAVAILABLE proves nothing, because a compared step followed no plan or none differs "
    "from itself; a lossy mode has its relative gradient error. fallbacks: recipes and shortcuts "
    "not exact, tensors no codec took or host memory had no room for, passes on another path, over "
    "all passes of the run.";

constexpr const char* kFitWords =
    "largest batch: that trains within so much memory of all owners; its peak and that of the next "
    "larger batch were measured.";

/// Of those who asked for one; empty where nobody did.
std::string fit_table(const std::vector<NamedResult>& results,
                      const std::set<std::string>& benchmarks) {
  const Align right = Align::kRight;
  MarkdownTable table(columns({{"within MiB", right},
                               {"largest batch", right},
                               {"its peak", right},
                               {"peak of the next", right}}));
  bool any = false;
  for (const auto& [name, result] : results) {
    if (!result.batch_fit.memory_bytes) continue;
    if (!benchmarks.contains(benchmark_name(result.identity))) continue;
    table.add_row(fit_row(result));
    any = true;
  }
  return any ? fmt::format("\n{}\n{}\n", table.text(), kFitWords) : "";
}

}  // namespace

std::string mode_table(const std::vector<NamedResult>& results) {
  std::set<std::string> benchmarks;
  for (const NamedResult& named : results) {
    if (under_a_mode(named)) benchmarks.insert(benchmark_name(named.result.identity));
  }
  if (benchmarks.empty()) return "";
  const Align right = Align::kRight;
  MarkdownTable bytes(columns({{"peak MiB", right},
                               {"predicted", right},
                               {"factor", right},
                               {"saved MiB", right},
                               {"predicted", right},
                               {"factor", right}}));
  MarkdownTable at_most(columns({{"saved at most MiB", right},
                                 {"predicted", right},
                                 {"factor", right},
                                 {"encoded", right},
                                 {"stays", right},
                                 {"factor", right}}));
  MarkdownTable times(columns({{"images/s", right},
                               {"overhead % [95 %]", right},
                               {"predicted", right},
                               {"certificate"},
                               {"fallbacks", right}}));
  for (const auto& [name, result] : results) {
    if (!benchmarks.contains(benchmark_name(result.identity))) continue;
    bytes.add_row(bytes_row(result));
    at_most.add_row(at_most_row(result));
    times.add_row(time_row(result));
  }
  return fmt::format("{}\n{}\n\n{}\n{}\n\n{}\n{}\n{}", bytes.text(), kBytesWords, at_most.text(),
                     kAtMostWords, times.text(), kTimeWords, fit_table(results, benchmarks));
}

}  // namespace noisemark::reports
