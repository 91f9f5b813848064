#include <fmt/format.h>

#include <algorithm>

#include "reports/markdown.h"
#include "reports/quantity.h"
#include "reports/report_sections.h"

namespace noisemark::reports::sections {
namespace {

std::vector<const MemorySnapshot*> instants(const MemorySection& memory) {
  std::vector<const MemorySnapshot*> all;
  for (const MemorySnapshot& shot : memory.boundaries) all.push_back(&shot);
  all.push_back(&memory.peak);
  return all;
}

int64_t bytes_of(const MemorySnapshot& shot, const std::string& category) {
  const auto entry = shot.by_category.find(category);
  return entry == shot.by_category.end() ? 0 : entry->second;
}

MarkdownTable owners_table(const std::vector<const MemorySnapshot*>& shots) {
  std::vector<MarkdownTable::Column> columns{{"owner (MiB)"}};
  for (const MemorySnapshot* shot : shots) {
    std::string title = shot->at.empty() ? "peak" : shot->at;
    std::replace(title.begin(), title.end(), '_', ' ');
    columns.push_back({title, Align::kRight});
  }
  return MarkdownTable(columns);
}

// Rows of owners that hold something at any instant; the names of the others go to `idle`.
void add_owners(const MemorySection& memory, const std::vector<const MemorySnapshot*>& shots,
                MarkdownTable& table, std::vector<std::string>& idle) {
  for (const std::string& category : memory.categories) {
    std::vector<std::string> row{category};
    bool any = false;
    for (const MemorySnapshot* shot : shots) {
      const int64_t bytes = bytes_of(*shot, category);
      any = any || bytes != 0;
      row.push_back(format_mib(bytes));
    }
    if (any) table.add_row(row);
    if (!any) idle.push_back(category);
  }
}

void add_closure(const std::vector<const MemorySnapshot*>& shots, MarkdownTable& table) {
  std::vector<std::string> total{"**live, by the allocator**"};
  std::vector<std::string> closure{"without an owner"};
  for (const MemorySnapshot* shot : shots) {
    total.push_back(format_mib(shot->allocator_bytes));
    closure.push_back(format_exact_bytes(shot->unattributed_bytes));
  }
  table.add_row(closure);
  table.add_row(total);
}

}  // namespace

std::string memory(const Result& result, const std::string& plot) {
  const MemorySection& m = result.memory;
  std::string text = "## Memory by owner\n\n";
  if (!m.measured) return text + not_measured(m.missing_reason) + training_memory(result);
  const auto shots = instants(m);
  MarkdownTable table = owners_table(shots);
  std::vector<std::string> idle;
  add_owners(m, shots, table, idle);
  add_closure(shots, table);
  text += table.text();
  text += fmt::format(
      "\nPeak: {} ({}), in {}, inside {}. Every storage counts once; the rows sum "
      "to what the allocator holds.\n",
      format_bytes(m.peak_bytes), format_exact_bytes(m.peak_bytes),
      m.peak_phase.empty() ? "no known phase" : m.peak_phase,
      m.peak_operator.empty() ? "no operator" : code(m.peak_operator));
  text +=
      "temporary: made by an operator in the current phase and kept by nobody when the phase ends; "
      "if it lives on, it is without an owner from then on.\n";
  if (!idle.empty()) text += fmt::format("Holding nothing: {}.\n", fmt::join(idle, ", "));
  text += fmt::format(
      "Outside the allocator: {}. Left over after the step: {}. Allocations in a "
      "step: {}.\nSource: {}.\n",
      m.outside_allocator_bytes ? format_bytes(*m.outside_allocator_bytes) : "not known",
      format_exact_bytes(m.leaked_bytes), format_count(m.allocations),
      m.source.empty() ? "not recorded" : m.source);
  text += device_memory(m);
  text += training_memory(result);
  text += plot;
  return text;
}

std::string saved_tensors(const Result& result) {
  const MemorySection& m = result.memory;
  std::string text = "## Saved for backward\n\n";
  if (!m.measured) return text + not_measured(m.missing_reason);
  MarkdownTable table({{"figure"}, {"value", Align::kRight}, {"what"}});
  table.add_row({"saved", format_bytes(m.saved_bytes),
                 "distinct storages held only for backward when forward returns"});
  table.add_row({"at most", format_bytes(m.peak_saved_bytes),
                 "maximum over the step, with what is decoded or recomputed"});
  table.add_row({"summed per variable", format_bytes(m.naive_saved_bytes),
                 m.saved_bytes > 0
                     ? fmt::format("counts shared storages again: {:.2f} times too much",
                                   static_cast<double>(m.naive_saved_bytes) /
                                       static_cast<double>(m.saved_bytes))
                     : "counts shared storages again"});
  table.add_row({"saved variables", format_count(m.saved_tensors), "packed in one step"});
  return text + table.text();
}

std::string batch_fit(const Result& result) {
  const BatchFit& fit = result.batch_fit;
  if (!fit.memory_bytes) return "";
  std::string text = fmt::format("## Largest batch within {}\n\n", format_bytes(*fit.memory_bytes));
  if (!fit.missing_reason.empty()) return text + not_measured(fit.missing_reason);
  MarkdownTable table({{"batch"}, {"value", Align::kRight}, {"peak", Align::kRight}});
  table.add_row({"the largest that fits", format_count(fit.batch),
                 fit.peak_bytes ? format_bytes(*fit.peak_bytes) : "none fits"});
  table.add_row({"the next larger", "",
                 fit.next_peak_bytes ? format_bytes(*fit.next_peak_bytes) : fit.next_words});
  return text + table.text() +
         fmt::format(
             "\nUnder mode {}. Peaks were measured in steady steps; nothing is extrapolated.\n",
             code(result.identity.mode));
}

}  // namespace noisemark::reports::sections
