#include "suite/run/run.h"

#include <fmt/core.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/folder.h"
#include "reports/base/sha256.h"
#include "reports/base/streams.h"
#include "reports/render/run_folder.h"
#include "reports/result/json_io.h"
#include "reports/seeds/study.h"
#include "reports/seeds/study_files.h"
#include "suite/config/catalogue.h"
#include "suite/config/lock.h"
#include "suite/environment/child.h"
#include "suite/environment/processor.h"
#include "suite/environment/surroundings.h"
#include "suite/run/folder/output_folder.h"
#include "suite/run/passes/watch.h"
#include "suite/run/ranks.h"
#include "suite/run/single_run.h"
#include "suite/run/spec/plan.h"

namespace noisemark::suite {
namespace {

/// The options of a process that makes `plan` alone.
RunOptions child_options(const RunOptions& options, const PlannedRun& plan,
                         const std::filesystem::path& out) {
  RunOptions child = options;
  child.modes = {plan.spec.mode.name};
  child.baselines = {plan.spec.baseline.name};
  child.precision = plan.spec.precision.name;
  child.device = plan.spec.device.str();
  child.threads = plan.spec.threads;
  child.seed = plan.seed;
  child.seeds = 1;
  child.looks.reset();
  child.shard.clear();
  child.out = out.string();
  child.memory = options.memory && !plan.judged;
  child.memory_snapshot = options.memory_snapshot && child.memory;
  // A mode changes few operators: a suite, whose time is short, profiles mode "none" alone.
  const bool profiled = plan.spec.mode.is_none() || find_suite(options.id) == nullptr;
  child.profile = options.profile && profiled && !plan.judged;
  // One seed shows as well as all what a step costs (tiers 0 and 1).
  child.certificate = options.certificate && (!plan.judged || plan.first_seed);
  if (plan.judged) child.fit_memory_bytes.reset();
  return child;
}

/// Leaves the child to be waited for: until then no other process gets its number, and with it the
/// signals that are meant for the child.
void forward_interrupts_until_end_of(pid_t child) {
  const InterruptForwarding forwarding(child);
  siginfo_t ended{};
  while (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == -1 &&
         errno == EINTR) {
  }
}

int wait_status_of(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) == -1 && errno == EINTR) {
  }
  return status;
}

}  // namespace

ChildEnd end_of_child(int wait_status, bool ended_for_memory) {
  if (WIFEXITED(wait_status)) return {static_cast<ExitCode>(WEXITSTATUS(wait_status)), ""};
  const int signal = WTERMSIG(wait_status);
  // The child was ended by the second Ctrl-C, or by one before main() had begun.
  if (std::find(kEndRequests.begin(), kEndRequests.end(), signal) != kEndRequests.end()) {
    return {ExitCode::kInterrupted, ""};
  }
  const std::string words = fmt::format("a run ended by signal {}", signal);
  if (signal != SIGKILL) return {ExitCode::kInternal, words};
  if (ended_for_memory) {
    return {ExitCode::kOutOfMemory, words + ": the kernel ended it for want of memory"};
  }
  return {ExitCode::kInternal, words + "; the kernel may have ended it for want of memory"};
}

std::vector<std::string> child_arguments(const RunOptions& options, const PlannedRun& plan,
                                         const std::filesystem::path& out) {
  std::vector<std::string> arguments{"run", plan.given};
  const RunOptions child = child_options(options, plan, out);
  for (const SpelledOption& option : spell_run_options(child, command::kRun)) {
    arguments.push_back(option.flag);
    if (!option.value.empty()) arguments.push_back(option.value);
  }
  return arguments;
}

std::vector<std::string> environment_with(const Variables& variables) {
  std::vector<std::string> all = own_variables();
  std::erase_if(all, [&](const std::string& entry) {
    return variables.contains(entry.substr(0, entry.find('=')));
  });
  for (const auto& [name, value] : variables) all.push_back(name + "=" + value);
  return all;
}

namespace {

namespace fs = std::filesystem;
using ResultsByName = std::map<std::string, reports::Result>;

/// Runs one plan of several in a process of its own (this very program), so that no run inherits
/// another's memory, caches or settings. Standard output and error are shared, and an interrupt of
/// this process, which must hold an InterruptGuard, goes on to it. `variables` are set in its
/// environment, which is this process's otherwise. Returns how it ended, why it failed and whose
/// result it left; a signal
/// that killed it is said on standard error.
ChildEnd run_in_child(const RunOptions& options, const PlannedRun& plan,
                      const std::filesystem::path& out, Variables variables) {
  std::vector<std::string> arguments = child_arguments(options, plan, out);
  arguments.insert(arguments.begin(), options.argv.empty() ? "noisemark" : options.argv.front());
  const auto ended_before = processes_ended_for_memory();
  const Cause cause;
  variables[Cause::kVariable] = std::to_string(cause.kept());
  const pid_t child =
      start_child({"/proc/self/exe", arguments, environment_with(variables), {}, cause.kept()});
  forward_interrupts_until_end_of(child);
  const int status = wait_status_of(child);
  const bool ended_for_memory = ended_before && processes_ended_for_memory() > ended_before;
  ChildEnd end = end_of_child(status, ended_for_memory);
  const Cause::Told told = cause.told();
  if (!end.words.empty()) {
    reports::say_on_stderr(end.words);
  } else {
    end.words = told.words;
  }
  end.run_id = told.run_id;
  return end;
}

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

/// A new suite owns nothing of what lies in its folders; a continued one knows what is its own.
bool is_earlier(const std::optional<reports::Suite>& resumed, const std::string& name,
                const std::string& sha256) {
  if (!resumed) return true;
  const auto earlier = resumed->earlier.find(name);
  return earlier != resumed->earlier.end() && earlier->second == sha256;
}

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

reports::Suite make_suite(const SeriesTitle& title, const std::vector<SeriesRun>& runs,
                          const fs::path& out, bool resume) {
  const auto resumed = suite_to_resume(title.text, out, resume);
  reports::Suite suite;
  suite.title = title.text;
  suite.part = title.part;
  std::set<std::string> judged;
  for (const SeriesRun& run : runs) {
    suite.names.push_back(run.name);
    if (run.plan && run.plan->judged) judged.insert(run.plan->id);
    const fs::path result = out / run.name / "result.json";
    if (!fs::exists(result)) continue;
    if (resumed && is_among(resumed->not_made, run.name)) {
      reports::say_on_stderr(run.name +
                             ": the result there is of another run, and counts from now "
                             "on if it is of the same work");
    }
    const std::string sha256 = reports::sha256_of_file(result);
    if (is_earlier(resumed, run.name, sha256)) suite.earlier[run.name] = sha256;
  }
  suite.judged = {judged.begin(), judged.end()};
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
ChildEnd run_one(const SeriesRun& run, const fs::path& folder, bool to_replace) {
  if (!run.plan) return {run.refused, run.refusal};
  RunOptions options = run.options;
  if (!fs::exists(folder)) options.resume = false;
  if (options.resume && to_replace && !holds_replacement(folder)) {
    // A series with --force was cut off before it came to this run.
    options.resume = false;
    options.force = true;
  }
  return run_in_child(options, *run.plan, folder, run.environment);
}

/// The SHA-256 of the result that lies there; empty where none can be read.
std::string result_there(const fs::path& folder) {
  try {
    const fs::path file = folder / "result.json";
    return fs::exists(file) ? reports::sha256_of_file(file) : "";
  } catch (const Error&) {
    return "";
  }
}

bool is_of_run(const fs::path& folder, const std::string& run_id) {
  try {
    return reports::read_result(folder / "result.json").run_id == run_id;
  } catch (const Error&) {
    return false;
  }
}

/// Keeps in the suite which of its folders other runs have taken. What lies in a continued suite
/// was looked at before, and is its own.
class Owners {
 public:
  Owners(const std::vector<SeriesRun>& runs, const fs::path& out, reports::Suite& suite)
      : out_(out), suite_(suite) {
    for (const SeriesRun& run : runs) {
      if (!run.plan || result_there(out / run.name).empty()) suite.not_made.push_back(run.name);
    }
  }

  /// Call it before the run of that name is begun.
  void begin(const std::string& name) {
    before_ = result_there(out_ / name);
    is_strangers_ = !before_.empty() && is_among(suite_.not_made, name);
    if (!before_.empty() || std::erase(suite_.not_made, name) == 0) return;
    reports::write_suite(out_, suite_);  // a series that is killed now has the run's result
  }

  /// Call it after that, which left the result of the run `run_id`, if of any.
  void end(const std::string& name, const std::string& run_id) {
    const std::string now = result_there(out_ / name);
    const bool kept = !now.empty() && now == before_ && !is_strangers_;
    std::erase(suite_.not_made, name);
    if (!kept && !is_of_run(out_ / name, run_id)) suite_.not_made.push_back(name);
  }

 private:
  const fs::path& out_;
  reports::Suite& suite_;
  std::string before_;         ///< the result there when the run in progress began
  bool is_strangers_ = false;  ///< another run has left `before_`
};

/// Returns no text where the run's result, or that there is none, tells how it ended.
std::string why_not_run(ExitCode code, const fs::path& folder) {
  const bool no_result = !fs::exists(folder / "result.json") || holds_replacement(folder);
  const bool told =
      code == ExitCode::kCannotRunHere || (code == ExitCode::kInterrupted && no_result);
  return told ? error_status(code) : "";
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

SeriesEnd run_series(const SeriesTitle& title, const std::vector<SeriesRun>& runs,
                     const fs::path& out, bool resume) {
  reports::Suite suite = make_suite(title, runs, out, resume);
  const ResultsByName finished = finished_runs(runs, out, suite, resume);
  Owners owners(runs, out, suite);
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
    if (run.plan) owners.begin(run.name);
    const auto [code, cause, run_id] = result != finished.end()
                                           ? ChildEnd{leave_finished(result->second, folder), ""}
                                           : run_one(run, folder, suite.earlier.contains(run.name));
    if (run.plan) owners.end(run.name, run_id);
    const std::string not_run = why_not_run(code, folder);
    if (!not_run.empty()) suite.not_run[run.name] = not_run;
    if (!cause.empty()) suite.causes[run.name] = cause;
    end.stopped = code == ExitCode::kInterrupted || interrupt.requested();
    end.codes.emplace_back(code);
  }
  reports::write_suite(out, suite);
  reports::write_suite_report(out);
  return end;
}

namespace {

namespace fs = std::filesystem;

std::string label_of(const RunOptions& options, const std::vector<PlannedRun>& plans) {
  const PlannedRun& first = plans.front();
  return plans.size() > 1 ? fs::path(options.id).stem().string()
                          : first.id + "-" + variant_label(first.spec);
}

ExitCode run_into(const RunOptions& options, const std::vector<PlannedRun>& plans,
                  const fs::path& out, const std::optional<Rank>& rank) {
  if (plans.size() > 1 || !options.shard.empty()) return run_suite(options, plans, out);
  if (rank) return run_rank(options, plans.front(), out, *rank);
  if (options.ranks > 1) return launch_ranks(options, plans.front(), out);
  return run_single(options, plans.front(), out);
}

}  // namespace

ExitCode run(const RunOptions& given) {
  const std::optional<Rank> rank = own_rank();
  const RunOptions options = rank ? options_of_rank(given, *rank) : given;
  require_one_way_with_what_is_there(options);
  std::vector<PlannedRun> plans = plan_runs(options);
  if (!options.shard.empty()) plans = part_of(plans, parse_shard(options.shard));
  require_possible(options, plans, rank);
  if (rank && rank->rank > 0) return run_rank(options, plans.front(), {}, *rank);
  tell_of_unused_gpu(options, plans.front().spec.device);
  if (options.out.empty()) {
    const FreshFolder fresh(options.out_parent, label_of(options, plans));
    return run_into(options, plans, fresh.path(), rank);
  }
  const fs::path out = options.out;
  if (options.resume && !fs::exists(out)) {
    reports::say_on_stderr(
        fmt::format("--resume: {}: nothing is there yet, the run begins", out.string()));
  }
  return run_into(options, plans, out, rank);
}

namespace {

namespace fs = std::filesystem;

std::string name_of(const PlannedRun& plan) {
  const std::string seed = plan.seeds > 1 ? "-seed" + std::to_string(plan.seed) : "";
  return reports::portable_name(plan.id) + "/" + reports::portable_name(variant_label(plan.spec)) +
         seed;
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

/// Judges several seeds under several modes; nothing is said where there is nothing to judge.
ExitCode say_quality(const RunOptions& options, const fs::path& out) {
  const auto study = reports::write_suite_quality(out, options.looks);
  if (!study) return ExitCode::kPass;
  const ExitCode code = reports::exit_code_of(*study);
  reports::print_out(fmt::format("{} ({}; `noisemark quality {}` exits with {})\n",
                                 reports::quality_line(*study), (out / "quality.md").string(),
                                 reports::shell_word(out.string()), static_cast<int>(code)));
  return code;
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

/// The options that are alike in all parts: folders are those of one machine, and neither the part
/// nor how to begin says what the suite is.
std::string options_of_all_parts(RunOptions options) {
  options.shard.clear();
  options.data.clear();
  options.out.clear();
  options.force = options.resume = false;
  std::string words;
  for (const SpelledOption& option : spell_run_options(options, command::kRun)) {
    words += (words.empty() ? "" : " ") + option.flag;
    if (!option.value.empty()) words += " " + reports::shell_word(option.value);
  }
  return words;
}

std::string definitions_of_all_parts(const RunOptions& options) {
  std::string text;
  for (const PlannedRun& plan : plan_runs(options)) text += definition_sha256(plan.spec.definition);
  return reports::sha256_of(text);
}

/// Several machines run a suite by one program, each a part.
SeriesTitle title_of(const RunOptions& options) {
  if (options.shard.empty()) return {options.id};
  const Shard shard = parse_shard(options.shard);
  return {fmt::format("{}, part {} of {}", options.id, shard.number, shard.of),
          reports::SuitePart{options.id, shard.number, shard.of,
                             reports::sha256_of_file("/proc/self/exe"),
                             options_of_all_parts(options), definitions_of_all_parts(options)}};
}

}  // namespace

ExitCode with_quality(ExitCode worst, ExitCode quality, bool judged) {
  return judged ? worse(worst, quality) : worst;
}

ExitCode run_suite(const RunOptions& options, const std::vector<PlannedRun>& plans,
                   const fs::path& out) {
  const reports::FolderLock lock(out);
  prepare_suite_folder(out, options.force || options.resume);
  prepare_quality(options, out);
  const SeriesEnd end =
      run_series(title_of(options), series_of(options, plans), out, options.resume);
  if (end.stopped) reports::say_on_stderr("interrupted; " + ways_on(out));
  const ExitCode worst = worst_of(end);
  // A look at half of the runs would be one of the few that there are.
  if (end.stopped || !options.shard.empty() || !has_several_seeds(plans)) return worst;
  return with_quality(worst, say_quality(options, out), is_there_to_judge(plans));
}

}  // namespace noisemark::suite
