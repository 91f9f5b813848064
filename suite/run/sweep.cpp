#include "suite/run/sweep.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "reports/error.h"
#include "reports/file.h"
#include "reports/json_io.h"
#include "reports/sweep_table.h"
#include "reports/write_report.h"
#include "suite/run/deterministic.h"
#include "suite/run/output_folder.h"
#include "suite/run/plan.h"
#include "suite/run/run_series.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

/// A cell, and what can be said of it before it is run.
struct PlannedCell {
  SweepCell cell;
  SeriesRun run;
  std::string refusal;  ///< empty: it can be run
};

PlannedCell planned(const SweepCell& cell) {
  PlannedCell result{cell, {cell.name, cell.options, {}, cell.environment}, ""};
  try {
    result.run.plan = plan_runs(cell.options).front();
  } catch (const Error& error) {
    result.run.refused = error.code();
    result.refusal = error.what();
  }
  return result;
}

std::vector<PlannedCell> planned_cells(const RunOptions& options,
                                       const std::vector<SweepAxis>& axes) {
  std::vector<PlannedCell> cells;
  for (const SweepCell& cell : sweep_cells(options, axes)) cells.push_back(planned(cell));
  const bool any = std::any_of(cells.begin(), cells.end(),
                               [](const PlannedCell& cell) { return cell.refusal.empty(); });
  if (!any) throw Error(cells.front().run.refused, cells.front().refusal);
  return cells;
}

const PlannedRun& first_plan(const std::vector<PlannedCell>& cells) {
  const auto first = std::find_if(cells.begin(), cells.end(), [](const PlannedCell& cell) {
    return cell.run.plan.has_value();
  });
  return *first->run.plan;
}

fs::path output_of(const RunOptions& options) {
  if (!options.out.empty()) return options.out;
  return fresh_output_folder(options.out_parent, fs::path(options.id).stem().string() + "-sweep");
}

SeriesEnd run_cells(const std::string& title, const std::vector<PlannedCell>& cells,
                    const fs::path& out, bool resume) {
  std::vector<SeriesRun> runs;
  for (const PlannedCell& cell : cells) runs.push_back(cell.run);
  return run_series("sweep of " + title, runs, out, resume);
}

/// A result counts where the folder's suite.json says that it is the cell's own.
reports::Sweep sweep_of(const std::string& title, const std::vector<SweepAxis>& axes,
                        const std::vector<PlannedCell>& cells, const SeriesEnd& end,
                        const fs::path& out) {
  reports::Sweep sweep;
  sweep.title = title;
  for (const SweepAxis& axis : axes) sweep.keys.push_back(axis.key);
  const auto runs = reports::suite_runs(out, reports::read_suite(out).value());
  for (size_t i = 0; i < cells.size(); ++i) {
    reports::SweepRow row;
    row.name = cells[i].cell.name;
    row.values = cells[i].cell.values;
    if (end.codes[i]) row.exit_code = static_cast<int>(*end.codes[i]);
    if (runs[i].lost.empty()) {
      row.result = reports::read_result(out / row.name / "result.json");
    } else {
      row.words = cells[i].refusal.empty() ? runs[i].lost : cells[i].refusal;
    }
    sweep.rows.push_back(std::move(row));
  }
  return sweep;
}

/// Without what a sweep is made to find.
SeriesEnd without_full_memory(SeriesEnd end) {
  for (auto& code : end.codes) {
    if (code == ExitCode::kOutOfMemory) code = ExitCode::kPass;
  }
  return end;
}

}  // namespace

ExitCode run_sweep(const RunOptions& options, const std::vector<SweepAxis>& axes) {
  require_benchmark("sweep", options.id);
  require_one_way_with_what_is_there(options);
  choose_cublas_workspace();
  const std::vector<PlannedCell> cells = planned_cells(options, axes);
  const std::string title = first_plan(cells).id;
  tell_of_unused_gpu(options, first_plan(cells).variant.device);
  const fs::path out = output_of(options);
  prepare_suite_folder(out, options.force || options.resume);
  const SeriesEnd end = run_cells(title, cells, out, options.resume);
  const std::string text = reports::sweep_markdown(sweep_of(title, axes, cells, end, out));
  reports::write_file_atomically(out / "sweep.md", text);
  fmt::print("{}", text);
  std::fflush(stdout);
  return worst_of(without_full_memory(end));
}

}  // namespace noisemark::suite
