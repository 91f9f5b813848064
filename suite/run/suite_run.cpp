#include "suite/run/suite_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "reports/quality/kept_quality.h"
#include "reports/quality/quality_markdown.h"
#include "reports/quality/write_quality.h"
#include "suite/run/output_folder.h"
#include "suite/run/run_series.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

std::string name_of(const PlannedRun& plan) {
  const std::string seed = plan.seeds > 1 ? "-seed" + std::to_string(plan.seed) : "";
  return plan.id + "/" + variant_label(plan.variant) + seed;
}

/// Found before anything is trained, and not by the look itself.
void prepare_quality(const RunOptions& options, const fs::path& out) {
  if (options.force) return reports::remove_quality(out);
  const auto kept = reports::kept_quality(out);
  if (!kept || !options.looks || *options.looks == kept->options.looks) return;
  throw bad_input("--looks", "", std::to_string(*options.looks),
                  fmt::format("{}, as was declared before the first look: {}", kept->options.looks,
                              (out / "quality.json").string()));
}

/// Of several seeds under several modes; nothing is said where there is nothing to judge.
ExitCode say_quality(const RunOptions& options, const fs::path& out) {
  const auto study = reports::write_suite_quality(out, options.looks);
  if (!study) return ExitCode::kPass;
  fmt::print("{} ({})\n", reports::quality_line(*study), (out / "quality.md").string());
  return reports::exit_code_of(*study);
}

bool is_there_to_judge(const std::vector<PlannedRun>& plans) {
  return std::any_of(plans.begin(), plans.end(),
                     [](const PlannedRun& plan) { return plan.judged; });
}

bool has_several_seeds(const std::vector<PlannedRun>& plans) {
  return std::any_of(plans.begin(), plans.end(),
                     [](const PlannedRun& plan) { return plan.seeds > 1; });
}

std::vector<SeriesRun> series_of(const RunOptions& options, const std::vector<PlannedRun>& plans) {
  std::vector<SeriesRun> runs;
  for (const PlannedRun& plan : plans) runs.push_back({name_of(plan), options, plan, {}});
  return runs;
}

}  // namespace

ExitCode with_quality(ExitCode worst, ExitCode quality, bool judged) {
  return judged ? worse(worst, quality) : worst;
}

ExitCode run_suite(const RunOptions& options, const std::vector<PlannedRun>& plans,
                   const fs::path& out) {
  prepare_suite_folder(out, options.force || options.resume);
  prepare_quality(options, out);
  const SeriesEnd end = run_series(options.id, series_of(options, plans), out, options.resume);
  const ExitCode worst = worst_of(end);
  // A look at half of the runs would be one of the few that there are.
  if (end.stopped || !has_several_seeds(plans)) return worst;
  return with_quality(worst, say_quality(options, out), is_there_to_judge(plans));
}

}  // namespace noisemark::suite
