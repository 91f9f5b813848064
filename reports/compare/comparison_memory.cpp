#include "reports/compare/comparison_memory.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <string_view>

#include "reports/markdown.h"
#include "reports/quantity.h"

namespace noisemark::reports {
namespace {

/// Rows of one cell that say who owned what at the peak.
struct PeakRows {
  std::vector<const ExactRow*> rows;
  bool differs = false;
};

constexpr std::string_view kAtPeak = "peak: ";
constexpr size_t kMostMemoryTables = 4;

std::map<std::string, PeakRows> peak_rows(const Comparison& comparison) {
  std::map<std::string, PeakRows> cells;
  for (const ExactRow& row : comparison.exact) {
    if (!row.metric.starts_with(kAtPeak)) continue;
    PeakRows& cell = cells[row.cell];
    cell.rows.push_back(&row);
    cell.differs = cell.differs || row.base != row.candidate;
  }
  return cells;
}

std::string bytes_cell(double bytes) {
  return format_bytes(static_cast<int64_t>(bytes));
}

std::string change_cell(double base, double candidate) {
  if (base == candidate) return "";
  const auto change = static_cast<int64_t>(std::abs(candidate - base));
  return fmt::format("{}{}", candidate > base ? '+' : '-', format_exact_bytes(change));
}

/// "peak_bytes" of the cell, which the owners add up to.
const ExactRow* peak_of(const Comparison& comparison, const std::string& cell) {
  for (const ExactRow& row : comparison.exact) {
    if (row.cell == cell && row.metric == "peak_bytes") return &row;
  }
  return nullptr;
}

std::string memory_table(const Comparison& comparison, const std::string& cell,
                         const PeakRows& peak) {
  MarkdownTable table({{"owner at the peak"},
                       {"BASE", Align::kRight},
                       {"NEW", Align::kRight},
                       {"change", Align::kRight}});
  double base = 0;
  double candidate = 0;
  for (const ExactRow* row : peak.rows) {
    const double a = row->base.value_or(0);
    const double b = row->candidate.value_or(0);
    base += a;
    candidate += b;
    if (a == 0 && b == 0) continue;
    table.add_row(
        {row->metric.substr(kAtPeak.size()), bytes_cell(a), bytes_cell(b), change_cell(a, b)});
  }
  table.add_row({"sum", bytes_cell(base), bytes_cell(candidate), change_cell(base, candidate)});
  const ExactRow* whole = peak_of(comparison, cell);
  const bool closes = whole != nullptr && whole->base == base && whole->candidate == candidate;
  return fmt::format("\n{}:\n\n{}{}", cell, table.text(),
                     closes ? "" : "\nThe sum is not peak_bytes.\n");
}

}  // namespace

std::string memory_by_owner(const Comparison& comparison) {
  const std::map<std::string, PeakRows> cells = peak_rows(comparison);
  if (cells.empty()) return "";
  std::string text = "\n## Memory\n";
  size_t shown = 0;
  size_t equal = 0;
  for (const auto& [cell, peak] : cells) {
    const bool show = (peak.differs || cells.size() == 1) && shown < kMostMemoryTables;
    shown += show ? 1 : 0;
    equal += peak.differs ? 0 : 1;
    if (show) text += memory_table(comparison, cell, peak);
  }
  if (cells.size() > shown) {
    text += fmt::format("\nCells: {}, of which {} have equal bytes by owner; shown: {}.\n",
                        cells.size(), equal, shown);
  }
  return text;
}

}  // namespace noisemark::reports
