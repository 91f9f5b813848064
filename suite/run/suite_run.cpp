#include "suite/run/suite_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "reports/quality/kept_quality.h"
#include "reports/quality/quality_markdown.h"
#include "reports/quality/write_quality.h"
#include "reports/sha256.h"
#include "reports/write_report.h"
#include "suite/run/child_run.h"
#include "suite/run/earlier_run.h"
#include "suite/run/interrupt.h"
#include "suite/run/output_folder.h"

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

std::string name_of(const PlannedRun& plan) {
  const std::string seed = plan.seeds > 1 ? "-seed" + std::to_string(plan.seed) : "";
  return plan.id + "/" + variant_label(plan.variant) + seed;
}

/// The suite that is continued; empty where none was begun.
std::optional<reports::Suite> suite_to_resume(const RunOptions& options, const fs::path& out) {
  auto suite = options.resume ? reports::read_suite(out) : std::nullopt;
  if (suite && suite->title != options.id) {
    throw Error(ExitCode::kNotComparable, (out / "suite.json").string() + ": " + suite->title +
                                              " (this suite is " + options.id + ")");
  }
  return suite;
}

/// What lies in the folders of a new suite is none of it; a continued one knows what is not.
bool is_earlier(const std::optional<reports::Suite>& resumed, const std::string& name,
                const std::string& sha256) {
  if (!resumed) return true;
  const auto earlier = resumed->earlier.find(name);
  return earlier != resumed->earlier.end() && earlier->second == sha256;
}

reports::Suite make_suite(const RunOptions& options, const std::vector<PlannedRun>& plans,
                          const fs::path& out) {
  const auto resumed = suite_to_resume(options, out);
  reports::Suite suite;
  suite.title = options.id;
  for (const PlannedRun& plan : plans) {
    const std::string& name = suite.names.emplace_back(name_of(plan));
    if (plan.judged) suite.judged.insert(plan.id);
    const fs::path result = out / name / "result.json";
    if (!fs::exists(result)) continue;
    const std::string sha256 = reports::sha256_of_file(result);
    if (is_earlier(resumed, name, sha256)) suite.earlier[name] = sha256;
  }
  return suite;
}

using ResultsByName = std::map<std::string, reports::Result>;

/// The runs of a continued suite that are finished. Throws Error as finished_result() does: a suite
/// that is not this one is found before anything is touched.
ResultsByName finished_runs(const RunOptions& options, const std::vector<PlannedRun>& plans,
                            const fs::path& out, const reports::Suite& suite) {
  ResultsByName finished;
  if (!options.resume) return finished;
  for (const PlannedRun& plan : plans) {
    const std::string name = name_of(plan);
    if (suite.earlier.contains(name) || holds_replacement(out / name)) continue;
    if (auto result = finished_result(out / name, plan)) finished.emplace(name, std::move(*result));
  }
  return finished;
}

/// `to_replace`: the folder holds the result of an earlier suite.
ExitCode run_one(RunOptions options, const PlannedRun& plan, const fs::path& folder,
                 bool to_replace) {
  if (options.resume && to_replace && !holds_replacement(folder)) {
    // A suite with --force was cut off before it came to this run.
    options.resume = false;
    options.force = true;
  }
  return run_in_child(options, plan, folder);
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

bool has_several_seeds(const std::vector<PlannedRun>& plans) {
  return std::any_of(plans.begin(), plans.end(),
                     [](const PlannedRun& plan) { return plan.seeds > 1; });
}

/// Empty where the run's result, or that there is none, tells how it ended.
std::string why_not_run(ExitCode code, const fs::path& folder) {
  if (code == ExitCode::kCannotRunHere) return "cannot run here";
  if (code == ExitCode::kInterrupted && !fs::exists(folder / "result.json")) return "interrupted";
  return "";
}

}  // namespace

ExitCode with_quality(ExitCode worst, ExitCode quality, bool judged) {
  return judged ? worse(worst, quality) : worst;
}

ExitCode run_suite(const RunOptions& options, const std::vector<PlannedRun>& plans,
                   const fs::path& out) {
  prepare_suite_folder(out, options.force || options.resume);
  prepare_quality(options, out);
  reports::Suite suite = make_suite(options, plans, out);
  const ResultsByName finished = finished_runs(options, plans, out, suite);
  reports::write_suite(out, suite);
  const InterruptGuard interrupt;
  ExitCode worst = ExitCode::kPass;
  bool stopped = false;
  for (const PlannedRun& plan : plans) {
    const std::string name = name_of(plan);
    if (stopped) {
      suite.not_run[name] = "not started";
      continue;
    }
    const auto result = finished.find(name);
    const ExitCode code = result != finished.end()
                              ? leave_finished(result->second, out / name)
                              : run_one(options, plan, out / name, suite.earlier.contains(name));
    const std::string not_run = why_not_run(code, out / name);
    if (!not_run.empty()) suite.not_run[name] = not_run;
    stopped = code == ExitCode::kInterrupted || interrupt.requested();
    worst = worse(worst, code);
    if (stopped) worst = worse(worst, ExitCode::kInterrupted);
  }
  reports::write_suite(out, suite);
  reports::write_suite_report(out);
  // A look at half of the runs would be one of the few that there are.
  if (stopped || !has_several_seeds(plans)) return worst;
  return with_quality(worst, say_quality(options, out), !suite.judged.empty());
}

}  // namespace noisemark::suite
