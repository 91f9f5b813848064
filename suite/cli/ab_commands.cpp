#include "suite/cli/commands.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <set>

#include "reports/ab/calibration.h"
#include "reports/ab/judge.h"
#include "reports/base/file.h"
#include "reports/base/folder.h"
#include "reports/compare/sides.h"
#include "reports/export/exporters.h"
#include "reports/result/environment_changes.h"
#include "suite/ab/build.h"
#include "suite/ab/measure.h"
#include "suite/cli/arguments.h"
#include "suite/environment/environment.h"
#include "suite/run/passes/watch.h"
#include "suite/run/spec/plan.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using reports::AbRecord;
using reports::AbVerdict;
using reports::Calibration;

constexpr const char* kCalibrationFile = "calibration.json";

/// Spells what `noisemark pace` is given: the benchmark and the options of a run.
std::vector<std::string> pace_words(const CommandLine& line) {
  std::vector<std::string> words = {line.positional.front()};
  for (const SpelledOption& option : spell_run_options(line.options.run, command::kPace)) {
    words.push_back(option.flag);
    if (!option.value.empty()) words.back() += "=" + option.value;
  }
  return words;
}

void require_one_benchmark(const CommandLine& line) {
  const std::string command(line.command);
  if (line.positional.empty()) throw bad_input(command, "", "no benchmark", "ID");
  require_benchmark(command, line.positional.front());
}

/// Refuses what cannot be a side before one of them is built, which takes minutes.
void require_side(const std::string& side, const std::string& program,
                  const std::string& revision) {
  if (program.empty() == revision.empty()) {
    throw bad_input("ab", "", program.empty() ? "neither" : "both",
                    fmt::format("one of --{0} and --{0}-ref", side));
  }
  if (program.empty()) require_revision(revision, fs::current_path());
}

/// The program behind --a or --b, or the one that is built of --a-ref or --b-ref.
AbProgram program_of(const std::string& program, const std::string& revision,
                     const std::vector<std::string>& configure, Progress& progress) {
  if (!program.empty()) return {program, program};
  progress.say("building " + revision);
  return {revision, build_revision(revision, fs::current_path(), configure).string()};
}

AbRequest request_of(const CommandLine& line) {
  AbRequest request;
  request.pace = pace_words(line);
  request.pairs = line.options.pairs;
  const int64_t fewest = reports::fewest_ab_pairs();
  if (request.pairs < fewest) {
    throw bad_input("--pairs", "", std::to_string(request.pairs),
                    fmt::format("an integer of at least {}", fewest));
  }
  request.seconds = line.options.seconds;
  request.turn_s = line.options.turn_s;
  return request;
}

std::string pair_words(const AbRecord& record) {
  const auto made = static_cast<int64_t>(record.pairs.size());
  const int64_t look = record.plan.pairs;
  return fmt::format("pair {} of {}", made, made > look ? 2 * look : look);
}

/// Holds the folder behind --out, where there is one.
std::unique_ptr<reports::FolderLock> lock_of(const CommandLine& line) {
  const std::string& out = line.options.run.out;
  return out.empty() ? nullptr : std::make_unique<reports::FolderLock>(out);
}

/// Returns the file of that name in --out, which must be a new or empty folder unless --force was
/// given; empty without --out.
fs::path new_file(const CommandLine& line, const char* name) {
  if (line.options.run.out.empty()) return {};
  const fs::path folder = line.options.run.out;
  const fs::path file = folder / name;
  std::error_code unknown;
  const bool exists = fs::exists(file, unknown);
  const bool has_others =
      fs::is_directory(folder, unknown) && !fs::is_empty(folder, unknown) && !unknown;
  if ((exists || has_others) && !line.options.run.force) {
    throw bad_input(
        "--out", "",
        exists ? file.string() + " exists" : folder.string() + " is not an empty folder",
        "a new folder, or --force to replace it");
  }
  reports::make_folder(file.parent_path());
  return file;
}

/// Describes the machine for ab.json, beside what both builds say of it.
reports::Strings environment_of(const Machine& machine) {
  reports::Strings environment = machine.environment;
  for (const auto& [key, value] : machine.container) environment["container " + key] = value;
  return environment;
}

std::string clock_reasons_now(const c10::Device& device) {
  const reports::Strings state = machine_state(device);
  const auto reasons = state.find(std::string(reports::kClockReasons));
  return reasons == state.end() ? "" : reasons->second;
}

/// Measures, and records what the machine was before, during and after it.
AbRecord measure_watched(AbRequest& request, AbWatch watch, const c10::Device& device) {
  request.environment = environment_of(capture_machine(device));
  if (device.is_cuda()) watch.clock_reasons = [&] { return clock_reasons_now(device); };
  AbRecord record = measure_ab(request, watch);
  add_changes(record.environment, machine_state(device));
  return record;
}

AbRecord measure_builds(const CommandLine& line) {
  const Options& options = line.options;
  Progress progress(line.positional.front(), 0, 0);
  AbRequest request = request_of(line);
  const fs::path file = new_file(line, "ab.json");
  request.slow_down_frac = options.slow_down_frac;
  request.judge.other_losses = options.other_losses;
  request.short_runs = options.short_runs;
  if (!options.calibration.empty()) {
    request.noise_floor = [calibrations = reports::read_calibrations(options.calibration)](
                              const reports::Strings& identity) {
      return reports::usable_noise(calibrations, identity).floor_frac;
    };
  }
  require_side("a", options.a, options.a_ref);
  require_side("b", options.b, options.b_ref);
  request.a = program_of(options.a, options.a_ref, options.configure, progress);
  request.b = program_of(options.b, options.b_ref, options.configure, progress);
  const c10::Device device = parse_device(options.run.device);
  const InterruptGuard interrupt;
  const auto keep = [&](const AbRecord& record) {
    progress.say(pair_words(record));
    if (!file.empty()) reports::write_file_atomically(file, reports::ab_json(record));
  };
  const auto say_short = [&](reports::AbSide side) {
    progress.say(fmt::format("bytes and FLOPs of {}", ab_side_name(side)));
  };
  const AbRecord record = measure_watched(
      request, {keep, [&] { return interrupt.requested(); }, say_short, {}}, device);
  keep(record);
  return record;
}

/// Refuses what says how to measure where nothing is measured, and names all of it, because the
/// user has to take all of it back. `used` are the options that mean something there.
void require_nothing_ignored(const CommandLine& line, const std::set<std::string>& used) {
  std::vector<std::string> ignored = line.positional;
  for (const std::string& name : line.given) {
    if (!used.contains(name)) ignored.push_back("--" + name);
  }
  if (!ignored.empty()) {
    throw bad_input(std::string(line.command), fmt::format("{}", fmt::join(ignored, ", ")),
                    "given with --from", "nothing is run");
  }
}

AbRecord recorded(const CommandLine& line) {
  require_nothing_ignored(line, {"from", "calibration", "other-losses", "inconclusive", "format"});
  return reports::read_ab(line.options.from);
}

AbVerdict judge(const Options& given, const AbRecord& record) {
  reports::AbOptions options;
  options.other_losses = given.other_losses;
  if (!given.calibration.empty()) {
    const auto calibrations = reports::read_calibrations(given.calibration);
    options.noise_floor_frac = reports::usable_noise(calibrations, record.a.identity).floor_frac;
  }
  return judge_ab(record, options);
}

/// A calibration that --out holds goes on; otherwise an empty one of what is asked for.
Calibration begun(const fs::path& file, const AbRequest& request) {
  if (!file.empty() && fs::exists(file)) {
    Calibration calibration = reports::read_calibration(file);
    const reports::AbPlan& plan = calibration.plan;
    if (plan.pairs != request.pairs || plan.seconds != request.seconds ||
        plan.turn_s != request.turn_s) {
      throw bad_input("calibrate", file.string(),
                      fmt::format("made with --pairs {} --seconds {} --turn {}", plan.pairs,
                                  plan.seconds, plan.turn_s),
                      "the same options, or a new folder");
    }
    return calibration;
  }
  Calibration calibration;
  calibration.plan.pairs = request.pairs;
  calibration.plan.seconds = request.seconds;
  calibration.plan.turn_s = request.turn_s;
  return calibration;
}

void keep(const Calibration& calibration, const fs::path& file) {
  if (file.empty()) return;
  reports::write_file_atomically(file, reports::calibration_json(calibration));
}

/// The file behind --out, which may be there.
fs::path file_to_go_on_with(const CommandLine& line, const char* name) {
  if (line.options.run.out.empty()) return {};
  const fs::path file = fs::path(line.options.run.out) / name;
  reports::make_folder(file.parent_path());
  return file;
}

/// Goes on until there are so many units, or until it is interrupted.
Calibration measure_units(const CommandLine& line, size_t units, const fs::path& file) {
  Progress progress(line.positional.front(), 0, 0);
  AbRequest request = request_of(line);
  const c10::Device device = parse_device(line.options.run.device);
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  request.a = request.b = {self, self};
  Calibration calibration = begun(file, request);
  const InterruptGuard interrupt;
  while (calibration.units.size() < units && !interrupt.requested()) {
    const auto say = [&](const AbRecord& record) {
      progress.say(fmt::format("unit {} of {}, {}", calibration.units.size() + 1, units,
                               pair_words(record)));
    };
    const AbRecord record =
        measure_watched(request, {say, [&] { return interrupt.requested(); }}, device);
    if (record.ended == kInterruptedWord) break;
    add_unit(calibration, record, file.empty() ? "calibrate" : file.string());
    keep(calibration, file);
  }
  if (calibration.units.empty()) {
    throw Error(ExitCode::kInterrupted, "interrupted before a unit was whole");
  }
  return calibration;
}

Calibration calibration_from(const CommandLine& line, const fs::path& file) {
  require_nothing_ignored(line, {"from", "out", "force"});
  const Calibration calibration = reports::calibration_of_records(line.options.from);
  keep(calibration, file);
  return calibration;
}

}  // namespace

Answer compare_builds(const CommandLine& line) {
  const Options& options = line.options;
  if (options.from.empty()) require_one_benchmark(line);
  const auto lock = lock_of(line);
  const AbRecord record = options.from.empty() ? measure_builds(line) : recorded(line);
  AbVerdict verdict = judge(options, record);
  verdict.comparison.inconclusive = inconclusive_of(options);
  const std::string markdown = reports::ab_markdown(record, verdict);
  if (!options.run.out.empty()) {
    reports::write_file_atomically(fs::path(options.run.out) / "ab.md", markdown);
  }
  Answer answer;
  const bool shown = options.format.empty() || options.format == "md";
  answer.text =
      shown ? markdown : reports::export_format(options.format).of_comparison(verdict.comparison);
  answer.code = exit_code_of(verdict.comparison);
  answer.warning = let_pass(verdict.comparison);
  if (record.ended == kInterruptedWord) {
    answer.code = ExitCode::kInterrupted;
    answer.warning.clear();
  }
  return answer;
}

Answer calibrate(const CommandLine& line) {
  const auto units = static_cast<size_t>(line.options.units);
  const bool recorded = !line.options.from.empty();
  if (!recorded) require_one_benchmark(line);
  const auto lock = lock_of(line);
  const fs::path file =
      recorded ? new_file(line, kCalibrationFile) : file_to_go_on_with(line, kCalibrationFile);
  const Calibration calibration =
      recorded ? calibration_from(line, file) : measure_units(line, units, file);
  Answer answer{reports::calibration_markdown(calibration), ExitCode::kPass};
  if (!file.empty()) {
    reports::write_file_atomically(file.parent_path() / "calibration.md", answer.text);
  }
  if (!reports::summarize(calibration).refusal.empty()) answer.code = ExitCode::kBaselineNeeded;
  if (!recorded && calibration.units.size() < units) answer.code = ExitCode::kInterrupted;
  return answer;
}

}  // namespace noisemark::suite
