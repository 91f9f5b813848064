#include "reports/render/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/base/statistics.h"
#include "reports/render/report.h"
#include "reports/result/gate.h"
#include "reports/result/metrics.h"

namespace noisemark::reports {
namespace {

bool under_a_mode(const NamedResult& named) {
  return named.result.identity.has_mode();
}

using Row = std::vector<std::string>;

std::string mib_or_blank(const std::optional<int64_t>& bytes) {
  return bytes ? format_mib(*bytes) : "";
}

std::string percent(const std::optional<double>& frac) {
  return frac ? fmt::format("{:+.1f}", 100 * *frac) : "";
}

/// The row has the measured and the predicted bytes, and how many times fewer they are.
Row figure(const Result& result, std::optional<int64_t> StepBytes::*of, int64_t bytes) {
  const MemoryMode& mode = result.memory_mode;
  if (!result.memory.measured) return {std::string(kMissing), mib_or_blank(mode.predicted.*of), ""};
  const std::optional<double> times = times_fewer(mode.plain.*of, bytes);
  return {format_mib(bytes), mib_or_blank(mode.predicted.*of),
          times ? fmt::format("{:.2f}", *times) : ""};
}

/// The figure of the training pass; where that was too short, of the turns beside "none".
std::string rate_of_any_run(const Result& result) {
  if (const auto rate = metric_value(result, kRateMetric)) return format_per_s(*rate);
  const std::vector<double>& turns = result.memory_mode.overhead.step_s;
  if (turns.empty()) return std::string(kMissing);
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
  const Verdict verdict = mode.certificate.verdict;
  if (verdict != Verdict::kNotApplied) return verdict_mark(verdict);
  if (mode.lossless || !mode.gradient_error.error_frac) return std::string(kMissing);
  return "error " + format_number(*mode.gradient_error.error_frac);
}

std::string fallbacks(const Result& result) {
  int64_t all = 0;
  bool any = false;
  for (const PassFallbacks& one : result.memory_mode.fallbacks) {
    if (!one.missing_reason.empty()) continue;
    if (!one.plan_missing_reason.empty()) return "no plan";
    all += one.kept_after_mismatch + one.replayed_after_mismatch + one.codec_fallbacks +
           one.departures;
    any = true;
  }
  // The count of refused tensors is of the memory pass, and 0 where that was not made.
  all += result.memory_mode.host_memory.refused_tensors;
  return any ? format_count(all) : "not measured";
}

/// The columns with which every table begins.
Row name_of(const Result& result, const std::vector<NamedResult>& results) {
  const Identity& id = result.identity;
  return {definition_name(id, results), id.precision, id.mode};
}

Row name_and(Row row, const std::vector<Row>& more) {
  for (const Row& cells : more) row.insert(row.end(), cells.begin(), cells.end());
  return row;
}

Row bytes_row(const Row& name, const Result& result) {
  return name_and(name, {figure(result, &StepBytes::peak_bytes, result.memory.peak_bytes),
                         figure(result, &StepBytes::saved_bytes, result.memory.saved_bytes)});
}

Row at_most_row(const Row& name, const Result& result) {
  const MemoryMode& mode = result.memory_mode;
  const bool encodes = result.identity.has_mode() && result.memory.measured;
  const std::optional<double> at_most = most_times_fewer(mode);
  return name_and(
      name, {figure(result, &StepBytes::peak_saved_bytes, result.memory.peak_saved_bytes),
             {encodes ? format_mib(mode.encoded_bytes) : "", mib_or_blank(mode.irreplaceable_bytes),
              at_most ? fmt::format("{:.2f}", *at_most) : ""}});
}

Row time_row(const Row& name, const Result& result) {
  const MemoryMode& mode = result.memory_mode;
  const bool none = !result.identity.has_mode();
  return name_and(name, {{rate_of_any_run(result), overhead(mode.overhead),
                          percent(predicted_overhead_frac(mode)), none ? "" : proof(mode),
                          none ? "" : fallbacks(result)}});
}

Row fit_row(const Row& name, const Result& result) {
  const BatchFit& fit = result.batch_fit;
  const Row within = {format_mib(*fit.memory_bytes)};
  if (!fit.missing_reason.empty()) return name_and(name, {within, {std::string(kMissing), "", ""}});
  return name_and(name,
                  {within,
                   {format_count(fit.batch), mib_or_blank(fit.peak_bytes),
                    fit.next_peak_bytes ? format_mib(*fit.next_peak_bytes) : fit.next_words}});
}

std::vector<MarkdownTable::Column> columns(const std::vector<MarkdownTable::Column>& more) {
  std::vector<MarkdownTable::Column> all{{"benchmark", Align::kLeft, Fold::kIfAlike},
                                         {"precision", Align::kLeft, Fold::kIfAlike},
                                         {"mode"}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

constexpr const char* kBytesWords =
    "The peak is that of all owners. Saved are the bytes that forward leaves for backward. The "
    "plan predicts both from the recorded step. A factor is the "
    "bytes of none in plain divided by those of this mode.";
constexpr const char* kAtMostWords =
    "Saved at most is the most over the step, with what is recomputed. Encoded is the part of "
    "saved that is encoded. The last two columns are the bytes that no plan of the mode could "
    "recompute, and how many times fewer these are than what none saves; only encoding can do "
    "better.";
constexpr const char* kTimeWords =
    "The overhead is the time that the mode adds to a step of none, measured in turns in one "
    "process; where its interval is wider than 10 points and than itself, the machine was too "
    "busy, or the rounds too few, to tell. Images/s are those of runs made one after another, so "
    "that their ratio also has what the machine did meanwhile. A certificate of PASS means the "
    "same bits as under none; UNAVAILABLE proves nothing, because a compared step followed no "
    "plan or two trainings under none differ; a lossy mode has its relative gradient error "
    "instead. Fallbacks are recipes and shortcuts that were not exact, tensors that no codec took"
    " or host memory had no room for, and passes on another path, over all passes of the run.";

constexpr const char* kFitWords =
    "The largest batch is the one whose steady step takes at most this much memory of all owners. "
    "Its peak and that of the next larger batch were measured.";

/// A row for each run that asked for one; empty where none did.
std::string fit_table(const std::vector<NamedResult>& results,
                      const std::set<std::string>& benchmarks) {
  const Align right = Align::kRight;
  MarkdownTable table(columns({{"within (MiB)", right},
                               {"largest batch", right},
                               {"its peak (MiB)", right},
                               {"peak of the next (MiB)", right}}));
  bool any = false;
  for (const auto& [name, result] : results) {
    if (!result.batch_fit.memory_bytes) continue;
    if (!benchmarks.contains(benchmark_name(result.identity))) continue;
    table.add_row(fit_row(name_of(result, results), result));
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
  MarkdownTable bytes(columns({{"peak (MiB)", right},
                               {"predicted (MiB)", right},
                               {"factor", right},
                               {"saved (MiB)", right},
                               {"predicted (MiB)", right},
                               {"factor", right}}));
  MarkdownTable at_most(columns({{"saved at most (MiB)", right},
                                 {"predicted (MiB)", right},
                                 {"factor", right},
                                 {"encoded (MiB)", right},
                                 {"kept anyway (MiB)", right},
                                 {"best factor", right}}));
  MarkdownTable times(columns({{"images/s", right},
                               {"overhead (%) [95 %]", right},
                               {"predicted (%)", right},
                               {"certificate"},
                               {"fallbacks", right}}));
  for (const auto& [name, result] : results) {
    if (!benchmarks.contains(benchmark_name(result.identity))) continue;
    const Row name_columns = name_of(result, results);
    bytes.add_row(bytes_row(name_columns, result));
    at_most.add_row(at_most_row(name_columns, result));
    times.add_row(time_row(name_columns, result));
  }
  return fmt::format("{}\n{}\n\n{}\n{}\n\n{}\n{}\n{}", bytes.text(), kBytesWords, at_most.text(),
                     kAtMostWords, times.text(), kTimeWords, fit_table(results, benchmarks));
}

std::optional<double> most_times_fewer(const MemoryMode& mode) {
  return times_fewer(mode.plain.saved_bytes, mode.irreplaceable_bytes.value_or(0));
}

std::optional<double> predicted_overhead_frac(const MemoryMode& mode) {
  const std::vector<double>& steps_s = mode.overhead.reference_step_s;
  if (!mode.predicted_added_s || steps_s.empty()) return std::nullopt;
  const double step_s = median(steps_s);
  if (!(step_s > 0)) return std::nullopt;
  return *mode.predicted_added_s / step_s;
}

}  // namespace noisemark::reports
