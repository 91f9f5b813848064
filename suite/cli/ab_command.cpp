#include "suite/cli/ab_command.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <set>

#include "reports/ab/ab_markdown.h"
#include "reports/ab/calibration.h"
#include "reports/compare/comparable.h"
#include "reports/environment_changes.h"
#include "reports/file.h"
#include "suite/ab/measure.h"
#include "suite/ab/ref_build.h"
#include "suite/cli/output_format.h"
#include "suite/environment/changes.h"
#include "suite/environment/environment.h"
#include "suite/run/interrupt.h"
#include "suite/run/plan.h"
#include "suite/run/progress.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using reports::AbRecord;
using reports::AbVerdict;
using reports::Calibration;

constexpr int64_t kPairs = 6;
constexpr double kSeconds = 60;
constexpr int64_t kUnits = 40;
constexpr const char* kCalibrationFile = "calibration.json";

/// What `noisemark pace` is given besides its name: the benchmark and the options of a run.
std::vector<std::string> pace_words(const Arguments& arguments) {
  std::vector<std::string> words = {arguments.positional().front()};
  for (const char* flag : {"mode", "baseline", "precision", "device", "seed", "threads",
                           "loader-threads", "data", "set", "init-weights"}) {
    for (const std::string& value : arguments.texts(flag)) {
      words.push_back(fmt::format("--{}={}", flag, value));
    }
  }
  if (arguments.has("deterministic")) words.emplace_back("--deterministic");
  return words;
}

void require_one_benchmark(const Arguments& arguments, const std::string& command) {
  if (arguments.positional().empty()) throw bad_input(command, "", "no benchmark", "ID");
  require_benchmark(command, arguments.positional().front());
}

AbProgram program_of(const Arguments& arguments, const std::string& side, Progress& progress) {
  const std::string ref = side + "-ref";
  if (arguments.has(side) == arguments.has(ref)) {
    throw bad_input("ab", "", arguments.has(ref) ? "both" : "neither",
                    fmt::format("one of --{} and --{}", side, ref));
  }
  if (arguments.has(side)) return {arguments.text(side), arguments.text(side)};
  const std::string revision = arguments.text(ref);
  progress.say("building " + revision);
  return {revision,
          build_revision(revision, fs::current_path(), arguments.texts("configure")).string()};
}

AbRequest request_of(const Arguments& arguments) {
  AbRequest request;
  request.pace = pace_words(arguments);
  request.pairs = arguments.integer("pairs", reports::fewest_ab_pairs()).value_or(kPairs);
  request.seconds = arguments.number("seconds", 1).value_or(kSeconds);
  request.turn_s = arguments.number("turn", 0.001).value_or(request.turn_s);
  return request;
}

std::string pair_words(const AbRecord& record) {
  const auto made = static_cast<int64_t>(record.pairs.size());
  const int64_t look = record.plan.pairs;
  return fmt::format("pair {} of {}", made, made > look ? 2 * look : look);
}

/// The folder behind --out, which must not hold such a file yet.
fs::path new_file(const Arguments& arguments, const char* name) {
  if (!arguments.has("out")) return {};
  const fs::path file = fs::path(arguments.text("out")) / name;
  if (fs::exists(file)) throw bad_input("--out", "", file.string() + " exists", "a new folder");
  reports::make_folder(file.parent_path());
  return file;
}

/// What ab.json says of the machine beside what both builds say of it.
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

/// With what the machine was before, during and after it.
AbRecord measure_watched(AbRequest& request, AbWatch watch, const c10::Device& device) {
  request.environment = environment_of(capture_machine(device));
  if (device.is_cuda()) watch.clock_reasons = [&] { return clock_reasons_now(device); };
  AbRecord record = measure_ab(request, watch);
  add_changes(record.environment, machine_state(device));
  return record;
}

AbRecord measure_builds(const Arguments& arguments) {
  require_one_benchmark(arguments, "ab");
  Progress progress(arguments.positional().front(), 0, 0);
  AbRequest request = request_of(arguments);
  const fs::path file = new_file(arguments, "ab.json");
  request.slow_down_frac = arguments.number("slow-down", 0).value_or(0);
  request.judge.other_losses = arguments.has("other-losses");
  request.short_runs = !arguments.has("no-bytes");
  if (arguments.has("calibration")) {
    const std::string path = arguments.text("calibration");
    request.noise_floor = [calibrations =
                               reports::read_calibrations(path)](const reports::Strings& identity) {
      return reports::usable_noise(calibrations, identity).floor_frac;
    };
  }
  request.a = program_of(arguments, "a", progress);
  request.b = program_of(arguments, "b", progress);
  const c10::Device device = parse_device(arguments.text("device"));
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

/// What was given and says how to measure, where nothing is measured, is refused: all of it, as the
/// user would have to take it back. `used` are the flags that mean something there.
void require_nothing_ignored(const Arguments& arguments, const std::string& command,
                             const std::set<std::string>& used) {
  std::vector<std::string> ignored = arguments.positional();
  for (const Flag& flag : find_command(command).flags) {
    const std::string name(flag.name);
    if (!used.contains(name) && arguments.has(name)) ignored.push_back("--" + name);
  }
  if (!ignored.empty()) {
    throw bad_input(command, fmt::format("{}", fmt::join(ignored, ", ")), "given with --from",
                    "nothing is run");
  }
}

AbRecord recorded(const Arguments& arguments) {
  require_nothing_ignored(
      arguments, "ab", {"from", "calibration", "other-losses", "inconclusive", "format", "help"});
  return reports::read_ab(arguments.text("from"));
}

AbVerdict judge(const Arguments& arguments, const AbRecord& record) {
  reports::AbOptions options;
  options.other_losses = arguments.has("other-losses");
  if (arguments.has("calibration")) {
    const std::string path = arguments.text("calibration");
    options.noise_floor_frac =
        reports::usable_noise(reports::read_calibrations(path), record.a.identity).floor_frac;
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
                      fmt::format("of --pairs {} --seconds {} --turn {}", plan.pairs, plan.seconds,
                                  plan.turn_s),
                      "the same, or a new folder");
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
fs::path file_to_go_on_with(const Arguments& arguments, const char* name) {
  if (!arguments.has("out")) return {};
  const fs::path file = fs::path(arguments.text("out")) / name;
  reports::make_folder(file.parent_path());
  return file;
}

/// Goes on until there are so many units, or until it is interrupted.
Calibration measure_units(const Arguments& arguments, size_t units, const fs::path& file) {
  Progress progress(arguments.positional().front(), 0, 0);
  AbRequest request = request_of(arguments);
  const c10::Device device = parse_device(arguments.text("device"));
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

Calibration calibration_from(const Arguments& arguments, const fs::path& file) {
  require_nothing_ignored(arguments, "calibrate", {"from", "out", "help"});
  const Calibration calibration = reports::calibration_of_records(arguments.text("from"));
  keep(calibration, file);
  return calibration;
}

}  // namespace

Answer compare_builds(const Arguments& arguments) {
  const std::string format = one_of(arguments, "ab", "format", comparison_formats());
  const reports::Inconclusive inconclusive = inconclusive_of(arguments, "ab");
  const AbRecord record = arguments.has("from") ? recorded(arguments) : measure_builds(arguments);
  AbVerdict verdict = judge(arguments, record);
  verdict.comparison.inconclusive = inconclusive;
  const std::string markdown = reports::ab_markdown(record, verdict);
  if (arguments.has("out")) {
    reports::write_file_atomically(fs::path(arguments.text("out")) / "ab.md", markdown);
  }
  Answer answer;
  answer.text = format == "md" ? markdown : comparison_text(verdict.comparison, format);
  answer.code = exit_code_of(verdict.comparison);
  answer.warning = let_pass(verdict.comparison);
  if (record.ended == kInterruptedWord) {
    answer.code = ExitCode::kInterrupted;
    answer.warning.clear();
  }
  return answer;
}

Answer calibrate(const Arguments& arguments) {
  const auto units = static_cast<size_t>(arguments.integer("units", 1).value_or(kUnits));
  const bool recorded = arguments.has("from");
  if (!recorded) require_one_benchmark(arguments, "calibrate");
  const fs::path file = recorded ? new_file(arguments, kCalibrationFile)
                                 : file_to_go_on_with(arguments, kCalibrationFile);
  const Calibration calibration =
      recorded ? calibration_from(arguments, file) : measure_units(arguments, units, file);
  Answer answer{reports::calibration_markdown(calibration), ExitCode::kPass};
  if (!file.empty()) {
    reports::write_file_atomically(file.parent_path() / "calibration.md", answer.text);
  }
  if (!reports::summarize(calibration).refusal.empty()) answer.code = ExitCode::kBaselineNeeded;
  if (!recorded && calibration.units.size() < units) answer.code = ExitCode::kInterrupted;
  return answer;
}

}  // namespace noisemark::suite
