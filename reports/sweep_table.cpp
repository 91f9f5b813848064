#include "reports/sweep_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "reports/convolution_workspace.h"
#include "reports/error.h"
#include "reports/gate.h"
#include "reports/markdown.h"
#include "reports/quantity.h"
#include "reports/table_cells.h"

namespace noisemark::reports {
namespace {

std::optional<double> rate_of(const SweepRow& row) {
  if (!row.result) return std::nullopt;
  const Metric* rate = find_metric(*row.result, "images_per_s");
  if (rate == nullptr || !rate->value || *rate->value <= 0) return std::nullopt;
  return rate->value;
}

std::string time_ratio(const SweepRow& row, const SweepRow& first) {
  const std::optional<double> base = rate_of(first);
  const std::optional<double> own = rate_of(row);
  return base && own ? fmt::format("{:.3f}", *base / *own) : "";
}

std::string workspace_cell(const Result& result) {
  const ConvolutionWorkspace& workspace = result.memory.convolution_workspace;
  std::string text =
      workspace.largest_bytes ? format_bytes(*workspace.largest_bytes) : std::string("none");
  if (!workspace.limit_bytes) return text;
  return text + fmt::format(" (limit {}: {})", format_bytes(*workspace.limit_bytes),
                            limit_cell(workspace));
}

bool is(const SweepRow& row, ExitCode code) {
  return row.exit_code == static_cast<int>(code);
}

std::string verdict_of(const SweepRow& row) {
  if (!row.exit_code) return "not started";
  if (row.result && is(row, ExitCode::kPass)) return verdict_cell(*row.result);
  const std::string words = row.result                        ? verdict_cell(*row.result)
                            : is(row, ExitCode::kOutOfMemory) ? "OUT OF MEMORY"
                                                              : "no result";
  return fmt::format("{}, exit code {}", words, *row.exit_code);
}

std::vector<std::string> cells_of(const SweepRow& row, const SweepRow& first) {
  std::vector<std::string> cells = row.values;
  if (row.result) {
    const Result& result = *row.result;
    for (const std::string& cell :
         {rate_cell(result), time_ratio(row, first),
          bytes_cell(result, &MemorySection::peak_bytes, "peak_bytes"),
          bytes_cell(result, &MemorySection::saved_bytes, "saved_bytes"), workspace_cell(result)}) {
      cells.push_back(cell);
    }
  } else {
    cells.insert(cells.end(), {"none", "", "none", "none", "none"});
  }
  cells.push_back(verdict_of(row));
  return cells;
}

std::string table_of(const Sweep& sweep) {
  std::vector<MarkdownTable::Column> columns;
  for (const std::string& key : sweep.keys) columns.push_back({key});
  for (const char* name : {"images/s [95 %]", "time", "peak", "saved", "convolution workspace"}) {
    columns.push_back({name, Align::kRight});
  }
  columns.push_back({"verdict"});
  MarkdownTable table(columns);
  for (const SweepRow& row : sweep.rows) table.add_row(cells_of(row, sweep.rows.front()));
  return table.text();
}

std::string headline(const Sweep& sweep) {
  const auto count = [&](const auto& holds) {
    return std::count_if(sweep.rows.begin(), sweep.rows.end(), holds);
  };
  const auto passed = count([](const SweepRow& row) { return is(row, ExitCode::kPass); });
  const auto full = count([](const SweepRow& row) { return is(row, ExitCode::kOutOfMemory); });
  const auto waiting = count([](const SweepRow& row) { return !row.exit_code; });
  const auto failed = static_cast<int64_t>(sweep.rows.size()) - passed - full - waiting;
  std::string text = fmt::format("{} of {} cells passed", passed, sweep.rows.size());
  if (full > 0) text += fmt::format(", {} found no memory", full);
  if (failed > 0) text += fmt::format(", {} did not pass", failed);
  if (waiting > 0) text += fmt::format(", {} not started", waiting);
  return text + ".";
}

std::string reasons(const Sweep& sweep) {
  std::string text;
  for (const SweepRow& row : sweep.rows) {
    if (!row.words.empty()) text += fmt::format("- {}: {}\n", code(row.name), row.words);
    if (!row.result) continue;
    for (const std::string& reason : row.result->exit.reasons) {
      text += fmt::format("- {}: {}\n", code(row.name), reason);
    }
  }
  return text.empty() ? "" : "\n" + text;
}

/// Why there is no workspace: the same of most rows.
std::string missing_workspace(const Sweep& sweep) {
  std::set<std::string> all;
  for (const SweepRow& row : sweep.rows) {
    if (!row.result) continue;
    const MemorySection& memory = row.result->memory;
    const std::string& why =
        memory.measured ? memory.convolution_workspace.missing_reason : memory.missing_reason;
    if (!memory.convolution_workspace.largest_bytes && !why.empty()) all.insert(why);
  }
  return all.empty() ? "" : fmt::format("No convolution workspace: {}.\n", fmt::join(all, "; "));
}

}  // namespace

std::string sweep_markdown(const Sweep& sweep) {
  return fmt::format(
      "# Sweep of {}\n\n{}\n\n{}\n"
      "time: of an image, as a multiple of the first row's. peak, saved: bytes in one training "
      "step. convolution workspace: scratch memory that one call of cuDNN took. not steady: no end "
      "of the warm-up was found.\n{}{}",
      sweep.title, headline(sweep), table_of(sweep), missing_workspace(sweep), reasons(sweep));
}

}  // namespace noisemark::reports
