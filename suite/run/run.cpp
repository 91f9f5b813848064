#include "suite/run/run.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "reports/write_report.h"
#include "suite/run/child_run.h"
#include "suite/run/deterministic.h"
#include "suite/run/interrupt.h"
#include "suite/run/output_folder.h"
#include "suite/run/plan.h"
#include "suite/run/single_run.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

/// Order of badness when several runs end differently: a red run outweighs one that could not run,
/// which outweighs a pass.
int severity(ExitCode code) {
  switch (code) {
    case ExitCode::kPass:
      return 0;
    case ExitCode::kCannotRunHere:
      return 1;
    case ExitCode::kFailed:
      return 3;
    default:
      return 2;
  }
}

ExitCode worse(ExitCode a, ExitCode b) {
  return severity(a) >= severity(b) ? a : b;
}

fs::path output_path(const RunOptions& options, const std::vector<PlannedRun>& plans) {
  if (!options.out.empty()) return options.out;
  if (plans.size() > 1) return fresh_output_folder(fs::path(options.id).stem().string());
  return fresh_output_folder(plans.front().id + "-" + variant_label(plans.front().variant));
}

ExitCode run_several(const RunOptions& options, const std::vector<PlannedRun>& plans,
                     const fs::path& out) {
  prepare_suite_folder(out, options.force || options.resume);
  // The terminal's Ctrl-C reaches the run in progress too; this process stays to report what ended.
  const InterruptGuard interrupt;
  ExitCode worst = ExitCode::kPass;
  std::vector<fs::path> folders;
  for (const PlannedRun& plan : plans) {
    folders.push_back(out / plan.id / variant_label(plan.variant));
    const ExitCode code = run_in_child(options, plan, folders.back());
    worst = worse(worst, code);
    if (code == ExitCode::kInterrupted) break;
    if (!interrupt.requested()) continue;
    worst = worse(worst, ExitCode::kInterrupted);
    break;
  }
  reports::write_suite_report(options.id, out, folders);
  return worst;
}

void require_one_way_with_what_is_there(const RunOptions& options) {
  if (options.resume && options.out.empty()) {
    throw bad_input("--resume", "needs --out", "", "the folder of the run to continue");
  }
  if (options.resume && options.force) {
    throw bad_input("--force", "given with --resume", "",
                    "one of them: replace the run that is there, or continue it");
  }
}

}  // namespace

ExitCode run(const RunOptions& options) {
  require_one_way_with_what_is_there(options);
  if (options.deterministic) choose_cublas_workspace();
  const std::vector<PlannedRun> plans = plan_runs(options);
  const fs::path out = output_path(options, plans);
  if (plans.size() == 1) return run_single(options, plans.front(), out);
  return run_several(options, plans, out);
}

}  // namespace noisemark::suite
