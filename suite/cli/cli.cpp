#include "suite/cli/cli.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "reports/check.h"
#include "reports/quality/write_quality.h"
#include "reports/table.h"
#include "suite/cli/ab_command.h"
#include "suite/cli/arguments.h"
#include "suite/cli/baseline_command.h"
#include "suite/cli/commands.h"
#include "suite/cli/compare_command.h"
#include "suite/cli/fid_command.h"
#include "suite/cli/fit_command.h"
#include "suite/cli/flag_file.h"
#include "suite/cli/history_command.h"
#include "suite/cli/list.h"
#include "suite/cli/plan_command.h"
#include "suite/cli/quality_command.h"
#include "suite/cli/report_command.h"
#include "suite/cli/sample_command.h"
#include "suite/cli/selftest_command.h"
#include "suite/cli/sweep_command.h"
#include "suite/config/keys.h"
#include "suite/environment/build_info.h"
#include "suite/environment/doctor.h"
#include "suite/environment/environment.h"
#include "suite/run/run.h"

namespace noisemark::suite {
namespace {

using Texts = std::vector<std::string>;

void print(const std::string& text) {
  std::cout << text << std::flush;
  if (!std::cout) throw Error(ExitCode::kCannotWrite, "standard output: cannot write");
}

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string data_folder(const Arguments& arguments) {
  return arguments.has("data") ? arguments.text("data") : environment_variable("NOISEMARK_DATA");
}

RunOptions run_options(const Arguments& arguments, const Texts& argv) {
  RunOptions options;
  options.id = arguments.positional().front();
  options.modes = arguments.texts("mode");
  options.baselines = arguments.texts("baseline");
  options.precision = arguments.text("precision");
  options.device = arguments.text("device");
  options.seed = arguments.integer("seed", 0);
  options.seeds = arguments.integer("seeds", 1).value_or(1);
  options.looks = arguments.integer("looks", 1);
  options.threads = arguments.integer("threads", 1);
  options.loader_threads = arguments.integer("loader-threads", 1).value_or(1);
  options.data = data_folder(arguments);
  options.out = arguments.text("out");
  const std::string out_parent = environment_variable("NOISEMARK_OUT");
  if (!out_parent.empty()) options.out_parent = out_parent;
  options.force = arguments.has("force");
  options.sets = arguments.texts("set");
  options.init_weights = arguments.text("init-weights");
  options.checkpoint_every = arguments.integer("checkpoint-every", 1).value_or(0);
  options.resume = arguments.has("resume");
  options.deterministic = arguments.has("deterministic");
  options.memory = !arguments.has("no-memory");
  options.memory_snapshot = arguments.has("memory-snapshot");
  options.profile = !arguments.has("no-profile");
  options.certificate = !arguments.has("no-certificate");
  if (arguments.has("fit-memory")) options.fit_memory_bytes = size_of(arguments, "fit-memory");
  options.slow_down_frac = arguments.number("slow-down", 0);
  options.argv = argv;
  return options;
}

ExitCode check_results(const Arguments& arguments) {
  const std::string& path = arguments.positional().front();
  auto findings = reports::check(path);
  for (reports::Finding& finding : reports::check_quality(path)) {
    findings.push_back(std::move(finding));
  }
  for (const reports::Finding& finding : findings) {
    print(fmt::format("{}: {}: {}\n", finding.file, finding.rule, finding.words));
  }
  for (const auto& weights : reports::absent_weights(path)) {
    print(fmt::format("{}: left out, so not compared\n", weights.string()));
  }
  if (findings.empty()) print(fmt::format("{}: nothing is wrong\n", path));
  return findings.empty() ? ExitCode::kPass : ExitCode::kFailed;
}

ExitCode show_environment(const Arguments& arguments) {
  const Machine machine = capture_machine(parse_device(arguments.text("device")));
  print(arguments.has("json") ? machine_json(machine) : machine_text(machine));
  return ExitCode::kPass;
}

ExitCode examine(const Arguments& arguments) {
  // First: it starts CUDA, without which CUPTI, which is asked next, crashes.
  const Machine machine = capture_machine(default_device());
  const auto diagnoses = diagnose(machine, look_around(/*sampling=*/true));
  print(arguments.has("json") ? doctor_json(diagnoses) : doctor_text(diagnoses));
  return ExitCode::kPass;
}

ExitCode show_help(const Arguments& arguments) {
  if (arguments.has("markdown")) {
    print(help_markdown());
  } else if (arguments.has("keys")) {
    print(keys_markdown());
  } else if (arguments.positional().empty()) {
    print(overview_text());
  } else {
    print(help_text(find_command(arguments.positional().front())));
  }
  return ExitCode::kPass;
}

ExitCode show_list(const Arguments& arguments) {
  print(arguments.has("json") ? list_json() : list_text());
  return ExitCode::kPass;
}

ExitCode show_version() {
  const BuildInfo& info = build_info();
  print(fmt::format("noisemark {}{}{}{}\n", info.version, info.git_commit.empty() ? "" : " ",
                    info.git_commit.substr(0, 12), info.git_dirty ? " with changes" : ""));
  return ExitCode::kPass;
}

ExitCode say(const Answer& answer) {
  print(answer.text);
  if (!answer.warning.empty()) fmt::print(stderr, "noisemark: {}\n", answer.warning);
  return answer.code;
}

ExitCode dispatch(const Command& command, const Arguments& arguments, const Texts& argv) {
  if (command.name == "list") return show_list(arguments);
  if (command.name == "run") return run(run_options(arguments, argv));
  if (command.name == "sweep") return sweep(arguments, run_options(arguments, argv));
  if (command.name == "plan") {
    print(plan_memory(arguments, run_options(arguments, argv)).text);
    return ExitCode::kPass;
  }
  if (command.name == "fit") return say(fit_batches(arguments, run_options(arguments, argv)));
  if (command.name == "pace") return pace(run_options(arguments, argv));
  if (command.name == "sample") return say(sample_images(arguments, run_options(arguments, argv)));
  if (command.name == "check") return check_results(arguments);
  if (command.name == "env") return show_environment(arguments);
  if (command.name == "help") return show_help(arguments);
  if (command.name == "report") return say(report_results(arguments));
  if (command.name == "table") {
    print(reports::table_markdown(arguments.positional()));
    return ExitCode::kPass;
  }
  if (command.name == "compare") return say(compare_results(arguments));
  if (command.name == "quality") return say(judge_seeds(arguments));
  if (command.name == "ab") return say(compare_builds(arguments));
  if (command.name == "calibrate") return say(calibrate(arguments));
  if (command.name == "history") return say(show_history(arguments));
  if (command.name == "baseline") return say(keep_baseline(arguments));
  if (command.name == "fid") return say(measure_sets(arguments, data_folder(arguments)));
  if (command.name == "selftest") return say(test_itself(arguments, argv));
  if (command.name == "doctor") return examine(arguments);
  throw std::logic_error("a command of the table without an implementation");
}

}  // namespace

ExitCode run_command_line(const Texts& words, const Texts& argv) {
  if (words.empty()) {
    throw bad_input("", "no command", "", "see noisemark help");
  }
  if (words.front() == "--help" || words.front() == "-h") {
    print(overview_text());
    return ExitCode::kPass;
  }
  if (words.front() == "--version") return show_version();
  const Command& command = find_command(words.front());
  const Texts typed(words.begin() + 1, words.end());
  const Arguments arguments(command, typed);
  if (arguments.wants_help()) {
    print(help_text(command));
    return ExitCode::kPass;
  }
  if (!arguments.has("flags")) return dispatch(command, arguments, argv);
  Texts said = with_flag_file(command, typed, arguments);
  const Arguments complete(command, said);
  said.insert(said.begin(), {argv.empty() ? "noisemark" : argv.front(), words.front()});
  return dispatch(command, complete, said);
}

}  // namespace noisemark::suite
