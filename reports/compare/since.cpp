
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <vector>

#include "reports/base/quantity.h"
#include "reports/base/statistics.h"
#include "reports/compare/compare.h"
#include "reports/result/metrics.h"

namespace noisemark::reports {
namespace {

/// "throughput 16.84 images/s, was 16.00 images/s (5.3 % more)"; empty where a side lacks it.
std::string change_words(const MetricRow& row, const std::vector<const Result*>& base,
                         const Result& now) {
  const auto value_in = [&row](const Result& result) {
    const Metric* metric = find_metric(result, row.name);
    return metric == nullptr ? std::nullopt : metric->value;
  };
  std::vector<double> before;
  for (const Result* run : base) {
    if (const auto value = value_in(*run); value && std::isfinite(*value)) before.push_back(*value);
  }
  const std::optional<double> value = value_in(now);
  if (before.empty() || !value) return "";
  const double was = median(before);
  const std::string is = fmt::format("{} {}", row.spoken, spoken_value(row, *value));
  if (was == *value) return is + " as before";
  const std::string share =
      was > 0 ? fmt::format(" ({} {})", format_percent(std::abs(*value / was - 1)),
                            *value > was ? "more" : "less")
              : "";
  return fmt::format("{}, was {}{}", is, spoken_value(row, was), share);
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
  for (const MetricRow& row : metric_table()) {
    if (row.spoken.empty()) continue;
    if (std::string words = change_words(row, runs, now.result); !words.empty()) {
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
