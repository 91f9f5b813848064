#include "reports/mode_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "reports/gate.h"
#include "reports/markdown.h"
#include "reports/quantity.h"
#include "reports/report.h"
#include "reports/statistics.h"

namespace noisemark::reports {
namespace {

bool under_a_mode(const NamedResult& named) {
  return named.result.identity.mode != "none";
}

std::string measured(const MemorySection& memory, int64_t bytes) {
  return memory.measured ? format_mib(bytes) : "none";
}

std::string predicted(const std::optional<int64_t>& bytes) {
  return bytes ? format_mib(*bytes) : "";
}

std::string factor(const std::optional<int64_t>& plain, const MemorySection& memory,
                   int64_t bytes) {
  if (!plain || !memory.measured || bytes <= 0) return "";
  return fmt::format("{:.2f}", static_cast<double>(*plain) / static_cast<double>(bytes));
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
  if (!overhead.frac) return "";
  const auto percent = [](double frac) { return fmt::format("{:+.1f}", 100 * frac); };
  std::string text = percent(*overhead.frac);
  if (overhead.ci95) {
    text += fmt::format(" [{}, {}]", percent(overhead.ci95->low), percent(overhead.ci95->high));
  }
  return text;
}

std::string proof(const MemoryMode& mode) {
  if (mode.certificate.verdict == Verdict::kPass) return "PASS";
  if (mode.certificate.verdict == Verdict::kFail) return "**FAIL**";
  if (mode.lossless || !mode.gradient_error.error_frac) return "none";
  return "error " + format_number(*mode.gradient_error.error_frac);
}

std::string fallbacks(const MemoryMode& mode) {
  if (!mode.plan_missing_reason.empty()) return "no plan";
  return format_count(mode.kept_after_mismatch + mode.codec_fallbacks + mode.departures +
                      mode.host_memory.refused_tensors);
}

std::vector<std::string> row_of(const Result& result) {
  const MemorySection& m = result.memory;
  const MemoryMode& mode = result.memory_mode;
  const bool none = result.identity.mode == "none";
  return {benchmark_name(result.identity) + (result.identity.custom ? " (custom)" : ""),
          result.identity.precision,
          result.identity.mode,
          measured(m, m.peak_bytes),
          predicted(mode.predicted.peak_bytes),
          measured(m, m.saved_bytes),
          measured(m, m.peak_saved_bytes),
          none ? "" : format_mib(mode.encoded_bytes),
          factor(mode.plain.saved_bytes, m, m.saved_bytes),
          factor(mode.plain.peak_saved_bytes, m, m.peak_saved_bytes),
          rate(result),
          overhead(mode.overhead),
          none ? "" : proof(mode),
          none ? "" : fallbacks(mode)};
}

}  // namespace

std::string mode_table(const std::vector<NamedResult>& results) {
  std::set<std::string> benchmarks;
  for (const NamedResult& named : results) {
    if (under_a_mode(named)) benchmarks.insert(benchmark_name(named.result.identity));
  }
  if (benchmarks.empty()) return "";
  MarkdownTable table({{"benchmark"},
                       {"precision"},
                       {"mode"},
                       {"peak MiB", Align::kRight},
                       {"predicted", Align::kRight},
                       {"saved MiB", Align::kRight},
                       {"saved at most", Align::kRight},
                       {"encoded", Align::kRight},
                       {"factor", Align::kRight},
                       {"at most", Align::kRight},
                       {"images/s", Align::kRight},
                       {"overhead % [95 %]", Align::kRight},
                       {"certificate"},
                       {"fallbacks", Align::kRight}});
  for (const NamedResult& named : results) {
    if (benchmarks.contains(benchmark_name(named.result.identity))) {
      table.add_row(row_of(named.result));
    }
  }
  return table.text() +
         "\nsaved: held for backward when forward returns; at most: over the step, with what is "
         "made "
         "again; encoded: in another form. factor, at most: times fewer than none in plain. "
         "overhead: time of a step beside none, in turns in one process. certificate: PASS is "
         "bitwise none; a lossy mode has its relative gradient error. fallbacks: recipes not "
         "exact, "
         "tensors no codec took or host memory had no room for, passes on another path.\n";
}

}  // namespace noisemark::reports
