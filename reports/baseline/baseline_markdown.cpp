#include "reports/baseline/baseline_markdown.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/compare/repetitions.h"
#include "reports/compare/stochastic_tier.h"
#include "reports/gate.h"
#include "reports/markdown.h"
#include "reports/quantity.h"
#include "reports/statistics.h"

namespace noisemark::reports {
namespace {

constexpr size_t kCommitDigits = 12;

std::vector<std::string> metrics() {
  std::vector<std::string> names;
  for (const GatedMetric& gate : gated_metrics()) names.push_back(gate.name);
  names.emplace_back("peak_bytes");
  return names;
}

std::string value_cell(const Result& result, const std::string& name) {
  const Metric* metric = find_metric(result, name);
  if (metric == nullptr || !metric->value) return "none";
  return format_quantity(*metric->value, metric->unit);
}

std::string runs(const BaselineCell& cell) {
  std::vector<MarkdownTable::Column> columns = {
      {"run"}, {"date"}, {"commit"}, {"seed", Align::kRight}};
  for (const std::string& name : metrics()) columns.push_back({name, Align::kRight});
  MarkdownTable table(columns);
  for (const NamedResult* run : cell.runs) {
    const Result& result = run->result;
    const Provenance& from = result.provenance;
    std::vector<std::string> row = {
        result.run_id, result.created_utc,
        from.git_commit.substr(0, kCommitDigits) + (from.git_dirty ? "+" : ""),
        std::to_string(result.seeds.base)};
    for (const std::string& name : metrics()) row.push_back(value_cell(result, name));
    table.add_row(row);
  }
  return table.text();
}

std::string spread(const BaselineCell& cell) {
  MarkdownTable table({{"metric"},
                       {"median", Align::kRight},
                       {"least", Align::kRight},
                       {"greatest", Align::kRight},
                       {"greatest / least", Align::kRight}});
  for (const std::string& name : metrics()) {
    std::vector<double> values;
    std::string unit;
    for (const NamedResult* run : cell.runs) {
      const Metric* metric = find_metric(run->result, name);
      if (metric == nullptr || !metric->value) continue;
      values.push_back(*metric->value);
      unit = metric->unit;
    }
    if (values.empty()) continue;
    const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
    table.add_row({name, format_quantity(median(values), unit), format_quantity(*least, unit),
                   format_quantity(*greatest, unit),
                   *least > 0 ? fmt::format("{:.4f}", *greatest / *least) : ""});
  }
  return table.text();
}

std::string reach(const BaselineCell& cell) {
  const double alpha = StochasticOptions().alpha;
  const auto gates = static_cast<int64_t>(gated_metrics().size());
  const int64_t fewest = fewest_pairs(alpha, gates);
  const auto count = static_cast<int64_t>(cell.runs.size());
  if (count >= fewest) {
    return fmt::format(
        "{} runs are enough for {} gates at alpha {}, beside as many of NEW. They were not made in "
        "turns with NEW, so a gate with noise needs `compare --calibration`.\n",
        count, gates, format_number(alpha));
  }
  return fmt::format(
      "Figures without noise can be judged by this baseline: `compare --exact`. Its {} gates with "
      "noise can never "
      "reach alpha {} with {} runs: {} are needed.\n",
      gates, format_number(alpha), count, fewest);
}

}  // namespace

std::string baseline_markdown(const BaselineCell& cell) {
  std::string text = fmt::format("# Baseline: {}\n", cell.name);
  const std::vector<std::string> flags = flags_of(cell);
  if (!flags.empty()) text += '\n';
  for (const std::string& flag : flags) text += fmt::format("- **To know**: {}.\n", flag);
  return text + fmt::format("\n{}\n{}\n{}", runs(cell), spread(cell), reach(cell));
}

}  // namespace noisemark::reports
