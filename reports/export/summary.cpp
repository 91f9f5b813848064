#include "reports/export/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "reports/markdown.h"
#include "reports/quantity.h"
#include "reports/report_sections.h"
#include "reports/table.h"

namespace noisemark::reports {
namespace {

constexpr std::string_view kMark = "\n<!-- noisemark results -->\n";
constexpr size_t kReserved = 128;  // for the mark and the sentence before it

/// Owners that hold anything at the peak of any run, in the order of the first that names them.
std::vector<std::string> owners_at_peak(const std::vector<NamedResult>& results) {
  std::vector<std::string> owners;
  for (const NamedResult& named : results) {
    const MemorySection& memory = named.result.memory;
    for (const std::string& owner : memory.categories) {
      const auto bytes = memory.peak.by_category.find(owner);
      const bool empty = bytes == memory.peak.by_category.end() || bytes->second == 0;
      const bool known = std::find(owners.begin(), owners.end(), owner) != owners.end();
      if (!empty && !known) owners.push_back(owner);
    }
  }
  return owners;
}

std::string memory(const std::vector<NamedResult>& results) {
  const std::vector<std::string> owners = owners_at_peak(results);
  std::vector<MarkdownTable::Column> columns = {{"result"}};
  for (const std::string& owner : owners) columns.push_back({owner, Align::kRight});
  columns.push_back({"without an owner", Align::kRight});
  columns.push_back({"sum", Align::kRight});
  MarkdownTable table(columns);
  for (const auto& [name, result] : results) {
    if (!result.memory.measured) continue;
    const MemorySnapshot& peak = result.memory.peak;
    std::vector<std::string> row = {name};
    int64_t sum = peak.unattributed_bytes;
    for (const std::string& owner : owners) {
      const auto bytes = peak.by_category.find(owner);
      const int64_t held = bytes == peak.by_category.end() ? 0 : bytes->second;
      row.push_back(format_bytes(held));
      sum += held;
    }
    row.push_back(format_bytes(peak.unattributed_bytes));
    row.push_back(format_bytes(sum) + (sum == result.memory.peak_bytes ? "" : " (does not close)"));
    table.add_row(row);
  }
  return table.empty() ? "" : "\n## Memory at the peak, by owner\n\n" + table.text();
}

std::string utilization(const std::vector<NamedResult>& results) {
  MarkdownTable table({{"result"},
                       {"work per image", Align::kRight},
                       {"achieved", Align::kRight},
                       {"measured peak", Align::kRight},
                       {"MFU", Align::kRight}});
  for (const auto& [name, result] : results) {
    const Utilization& use = result.utilization;
    if (!use.measured) continue;
    const auto work = static_cast<double>(use.forward_flop_per_image + use.backward_flop_per_image);
    table.add_row({name, format_flop(work), format_flop_per_s(use.achieved_flop_per_s),
                   format_flop_per_s(use.gemm_peak_flop_per_s), format_percent(use.mfu_frac)});
  }
  return table.empty() ? "" : "\n## Utilization\n\n" + table.text();
}

std::string quality(const std::vector<NamedResult>& results) {
  MarkdownTable table({{"result"},
                       {"seed", Align::kRight},
                       {"val loss", Align::kRight},
                       {"at the start", Align::kRight},
                       {"target", Align::kRight},
                       {"time to it", Align::kRight}});
  for (const auto& [name, result] : results) {
    const Quality& q = result.quality;
    if (q.evaluations.empty()) continue;
    table.add_row({name, fmt::format("{}", result.seeds.base),
                   format_number(q.evaluations.back().loss),
                   format_number(q.evaluations.front().loss),
                   q.target_loss ? format_number(*q.target_loss) : "none",
                   q.time_to_quality_s ? format_seconds(*q.time_to_quality_s) : "not reached"});
  }
  return table.empty() ? "" : "\n## Quality\n\n" + table.text();
}

std::string folded(const NamedResult& named) {
  const Result& result = named.result;
  const std::array parts{sections::what_ran(result),      sections::gates(result),
                         sections::step_time(result, ""), sections::saved_tensors(result),
                         sections::operators(result),     sections::noise(result),
                         sections::environment(result),   sections::seeds(result),
                         sections::data(result),          sections::repeat(result)};
  std::string text = fmt::format("\n<details><summary>{}</summary>\n", named.name);
  for (const std::string& part : parts) {
    if (!part.empty()) text += fmt::format("\n{}", part);
  }
  return text + "\n</details>\n";
}

}  // namespace

std::string summary_markdown(const CollectedResults& results, size_t limit) {
  std::string text = suite_summary(results.title, results.results, results.missing);
  text += memory(results.results) + utilization(results.results) + quality(results.results);
  size_t left_out = 0;
  for (const NamedResult& named : results.results) {
    const std::string more = folded(named);
    const bool fits = text.size() + more.size() + kReserved <= limit;
    if (fits) text += more;
    left_out += fits ? 0 : 1;
  }
  if (left_out > 0) text += fmt::format("\nDetails left out for their length: {}.\n", left_out);
  return text + std::string(kMark);
}

}  // namespace noisemark::reports
