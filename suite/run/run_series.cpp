#include "suite/run/run_series.h"

#include <map>
#include <utility>

#include "reports/error.h"
#include "reports/sha256.h"
#include "reports/write_report.h"
#include "suite/run/earlier_run.h"
#include "suite/run/interrupt.h"
#include "suite/run/output_folder.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using ResultsByName = std::map<std::string, reports::Result>;

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

/// The suite that is continued; empty where none was begun.
std::optional<reports::Suite> suite_to_resume(const std::string& title, const fs::path& out,
                                              bool resume) {
  auto suite = resume ? reports::read_suite(out) : std::nullopt;
  if (suite && suite->title != title) {
    throw Error(ExitCode::kNotComparable, (out / "suite.json").string() + ": " + suite->title +
                                              " (this suite is " + title + ")");
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

reports::Suite make_suite(const std::string& title, const std::vector<SeriesRun>& runs,
                          const fs::path& out, bool resume) {
  const auto resumed = suite_to_resume(title, out, resume);
  reports::Suite suite;
  suite.title = title;
  for (const SeriesRun& run : runs) {
    suite.names.push_back(run.name);
    if (run.plan && run.plan->judged) suite.judged.insert(run.plan->id);
    const fs::path result = out / run.name / "result.json";
    if (!fs::exists(result)) continue;
    const std::string sha256 = reports::sha256_of_file(result);
    if (is_earlier(resumed, run.name, sha256)) suite.earlier[run.name] = sha256;
  }
  return suite;
}

/// The runs of a continued series that are finished. Throws Error as finished_result() does: a
/// series that is not this one is found before anything is touched.
ResultsByName finished_runs(const std::vector<SeriesRun>& runs, const fs::path& out,
                            const reports::Suite& suite, bool resume) {
  ResultsByName finished;
  if (!resume) return finished;
  for (const SeriesRun& run : runs) {
    if (suite.earlier.contains(run.name) || holds_replacement(out / run.name)) continue;
    if (!run.plan) continue;
    if (auto result = finished_result(out / run.name, *run.plan)) {
      finished.emplace(run.name, std::move(*result));
    }
  }
  return finished;
}

/// `to_replace`: the folder holds the result of an earlier series.
ExitCode run_one(const SeriesRun& run, const fs::path& folder, bool to_replace) {
  if (!run.plan) return run.refused;
  RunOptions options = run.options;
  if (!fs::exists(folder)) options.resume = false;
  if (options.resume && to_replace && !holds_replacement(folder)) {
    // A series with --force was cut off before it came to this run.
    options.resume = false;
    options.force = true;
  }
  return run_in_child(options, *run.plan, folder, run.environment);
}

/// Empty where the run's result, or that there is none, tells how it ended.
std::string why_not_run(ExitCode code, const fs::path& folder) {
  if (code == ExitCode::kCannotRunHere) return "cannot run here";
  if (code == ExitCode::kInterrupted && !fs::exists(folder / "result.json")) return "interrupted";
  return "";
}

}  // namespace

ExitCode worse(ExitCode a, ExitCode b) {
  return severity(a) >= severity(b) ? a : b;
}

ExitCode worst_of(const SeriesEnd& end) {
  ExitCode worst = ExitCode::kPass;
  for (const auto& code : end.codes) worst = code ? worse(worst, *code) : worst;
  return end.stopped ? worse(worst, ExitCode::kInterrupted) : worst;
}

SeriesEnd run_series(const std::string& title, const std::vector<SeriesRun>& runs,
                     const fs::path& out, bool resume) {
  reports::Suite suite = make_suite(title, runs, out, resume);
  const ResultsByName finished = finished_runs(runs, out, suite, resume);
  reports::write_suite(out, suite);
  const InterruptGuard interrupt;
  SeriesEnd end;
  for (const SeriesRun& run : runs) {
    if (end.stopped) {
      suite.not_run[run.name] = "not started";
      end.codes.emplace_back();
      continue;
    }
    const fs::path folder = out / run.name;
    const auto result = finished.find(run.name);
    const ExitCode code = result != finished.end()
                              ? leave_finished(result->second, folder)
                              : run_one(run, folder, suite.earlier.contains(run.name));
    const std::string not_run = why_not_run(code, folder);
    if (!not_run.empty()) suite.not_run[run.name] = not_run;
    end.stopped = code == ExitCode::kInterrupted || interrupt.requested();
    end.codes.emplace_back(code);
  }
  reports::write_suite(out, suite);
  reports::write_suite_report(out);
  return end;
}

}  // namespace noisemark::suite
