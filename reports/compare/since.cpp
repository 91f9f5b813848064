
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "reports/base/quantity.h"
#include "reports/base/statistics.h"
#include "reports/compare/compare.h"
#include "reports/result/metrics.h"

namespace noisemark::reports {
namespace {

std::optional<double> rate(const Result& result) {
  const Metric* metric = find_metric(result, kRateMetric);
  return metric == nullptr ? std::nullopt : metric->value;
}

std::optional<double> peak(const Result& result) {
  if (!result.memory.measured) return std::nullopt;
  return static_cast<double>(result.memory.peak_bytes);
}

std::optional<double> loss(const Result& result) {
  if (result.quality.evaluations.empty()) return std::nullopt;
  return result.quality.evaluations.back().loss;
}

struct SinceFigure {
  const char* name;
  std::optional<double> (*of)(const Result&);
  std::string (*text)(double);
};

constexpr std::array kFigures{
    SinceFigure{"images/s", rate, format_per_s},
    SinceFigure{"peak memory", peak,
                [](double bytes) { return format_bytes(static_cast<int64_t>(bytes)); }},
    SinceFigure{"validation loss", loss, format_number}};

/// "images/s 16.84, was 16.00 (5.3 % more)"; empty where a side lacks it.
std::string change_words(const SinceFigure& figure, const std::vector<const Result*>& base,
                         const Result& now) {
  std::vector<double> before;
  for (const Result* run : base) {
    if (const auto value = figure.of(*run); value && std::isfinite(*value))
      before.push_back(*value);
  }
  const std::optional<double> value = figure.of(now);
  if (before.empty() || !value) return "";
  const double was = median(before);
  if (was == *value) return fmt::format("{} {} as before", figure.name, figure.text(*value));
  const std::string share =
      was > 0 ? fmt::format(" ({} {})", format_percent(std::abs(*value / was - 1)),
                            *value > was ? "more" : "less")
              : "";
  return fmt::format("{} {}, was {}{}", figure.name, figure.text(*value), figure.text(was), share);
}

}  // namespace

std::string since_words(const Side& base, const NamedResult& now) {
  const std::string cell = cell_name(now.result.identity);
  Side same{base.name, {}};
  std::vector<const Result*> runs;
  for (const NamedResult& run : base.runs) {
    if (cell_name(run.result.identity) != cell) continue;
    if (run.result.run_id == now.result.run_id) return fmt::format("{} is this run", base.name);
    same.runs.push_back(run);
    runs.push_back(&run.result);
  }
  if (runs.empty()) return fmt::format("{} has no run of {}", base.name, cell);
  StochasticOptions exact;
  exact.gates = false;
  const Comparison comparison = compare(same, {"this run", {now}}, exact);
  const std::string why = comparison.reasons.empty() ? "" : " (" + comparison.reasons.front() + ")";
  std::vector<std::string> parts;
  if (comparison.verdict == CompareVerdict::kNotComparable) {
    parts.push_back("BASE is not comparable" + why);
  }
  for (const SinceFigure& figure : kFigures) {
    if (std::string words = change_words(figure, runs, now.result); !words.empty()) {
      parts.push_back(std::move(words));
    }
  }
  if (comparison.verdict != CompareVerdict::kNotComparable) {
    parts.push_back(
        fmt::format("figures without noise are {}{}", verdict_name(comparison.verdict), why));
  }
  return fmt::format("{}; BASE is {}, {} run{}", fmt::join(parts, "; "), base.name, runs.size(),
                     runs.size() == 1 ? "" : "s, of which these are medians");
}

}  // namespace noisemark::reports
