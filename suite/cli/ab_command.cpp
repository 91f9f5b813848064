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

/// What was given and says how to measure, where nothing is measured: all of it, as the user would
/// have to take it back.
std::vector<std::string> ignored_with_from(const Arguments& arguments) {
  static const std::set<std::string> of_judging = {"from",         "calibration", "other-losses",
                                                   "inconclusive", "format",      "help"};
  std::vector<std::string> ignored = arguments.positional();
  for (const Flag& flag : find_command("ab").flags) {
    const std::string name(flag.name);
    if (!of_judging.contains(name) && arguments.has(name)) ignored.push_back("--" + name);
  }
  return ignored;
}

AbRecord recorded(const Arguments& arguments) {
  const std::vector<std::string> ignored = ignored_with_from(arguments);
  if (!ignored.empty()) {
    throw bad_input("ab", fmt::format("{}", fmt::join(ignored, ", ")), "given with --from",
                    "nothing is run");
  }
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

/// A unit of other work, another machine or another build is no unit of this calibration.
void require_same(const Calibration& calibration, const AbRecord& record, const fs::path& file) {
  auto differences = reports::differing_fields(calibration.identity, record.a.identity);
  if (differences.empty()) {
    differences = reports::differing_fields(calibration.about, record.a.about);
  }
  if (differences.empty()) return;
  throw Error(ExitCode::kNotComparable,
              fmt::format("{}: is of other work, another machine or another build: differs in {}",
                          file.string(), reports::first_of(differences)));
}

void add_unit(Calibration& calibration, const AbRecord& record, const fs::path& file) {
  const reports::CalibrationUnit unit = reports::unit_of(record, judge_ab(record));
  if (calibration.units.empty()) {
    calibration.identity = record.a.identity;
    calibration.about = record.a.about;
    calibration.benchmark = record.a.benchmark;
    calibration.variant = record.a.variant;
  } else {
    require_same(calibration, record, file);
  }
  calibration.units.push_back(unit);
}

void keep(const Calibration& calibration, const fs::path& file) {
  if (file.empty()) return;
  reports::write_file_atomically(file, reports::calibration_json(calibration));
}

void require_units(const Calibration& calibration) {
  if (calibration.units.empty()) {
    throw Error(ExitCode::kInterrupted, "interrupted before a unit was whole");
  }
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
  require_one_benchmark(arguments, "calibrate");
  Progress progress(arguments.positional().front(), 0, 0);
  AbRequest request = request_of(arguments);
  const c10::Device device = parse_device(arguments.text("device"));
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  request.a = request.b = {self, self};
  const auto units = static_cast<size_t>(arguments.integer("units", 1).value_or(kUnits));
  fs::path file;
  if (arguments.has("out")) {
    file = fs::path(arguments.text("out")) / "calibration.json";
    reports::make_folder(file.parent_path());
  }
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
    add_unit(calibration, record, file);
    keep(calibration, file);
  }
  require_units(calibration);
  Answer answer{reports::calibration_markdown(calibration), ExitCode::kPass};
  if (!file.empty()) {
    reports::write_file_atomically(file.parent_path() / "calibration.md", answer.text);
  }
  if (!reports::summarize(calibration).refusal.empty()) answer.code = ExitCode::kBaselineNeeded;
  if (calibration.units.size() < units) answer.code = ExitCode::kInterrupted;
  return answer;
}

}  // namespace noisemark::suite
