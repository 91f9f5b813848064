#include "reports/ab/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <stdexcept>

#include "reports/ab/ab_fields.h"
#include "reports/base/document.h"
#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/json_writer.h"
#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/base/statistics.h"
#include "reports/compare/compare.h"
#include "reports/compare/inference.h"
#include "reports/compare/sides.h"

namespace noisemark::reports {
namespace {

constexpr double kFloorQuantile = 0.95;
constexpr int64_t kMostUnits = 10000;
constexpr const char* kFileName = "calibration.json";

/// Returns how many units in all would allow gating if no further one is an alarm.
int64_t units_needed(int64_t alarms, int64_t units) {
  int64_t needed = units;
  while (needed < kMostUnits && clopper_pearson(alarms, needed).high > kMostFalseAlarmsFrac) {
    ++needed;
  }
  return needed;
}

std::string refusal_of(const CalibrationSummary& summary) {
  if (summary.alarm_rate.high > kMostFalseAlarmsFrac) {
    return fmt::format(
        "{} in {}: the rate may be as high as {}, and must be at most {}; {} units in all would be "
        "enough, if no further one gives an alarm",
        format_counted(summary.alarms, "false alarm"), format_counted(summary.units, "unit"),
        format_percent(summary.alarm_rate.high), format_percent(kMostFalseAlarmsFrac),
        summary.units_needed);
  }
  if (2 * summary.noise_floor_frac > kWidestMarginFrac) {
    return fmt::format("a noise floor of {} is too wide for any gate (at most {})",
                       format_percent(summary.noise_floor_frac),
                       format_percent(kWidestMarginFrac / 2));
  }
  return "";
}

/// Noise does not depend on it.
bool belongs_to_seed(const std::string& field) {
  return field == "seeds.base" || field == "provenance.init_weights_sha256";
}

/// Says in words where the calibration is of other work or another machine; empty: it fits.
std::string misfit(const Calibration& calibration, const Strings& identity) {
  for (const FieldDifference& found : differing_fields(calibration.identity, identity)) {
    if (belongs_to_seed(found.field)) continue;
    return fmt::format("{}: {} ({})", found.field, found.base, found.candidate);
  }
  return "";
}

void require_itself(const AbRecord& record, const std::string& where) {
  if (!record.ended.empty()) throw bad_input(where, "ended", record.ended, "a whole comparison");
  if (record.plan.slow_down_frac != 0) {
    throw bad_input(where, "plan.slow_down_frac", fmt::format("{}", record.plan.slow_down_frac),
                    "0: untouched");
  }
  if (const auto found = differing_fields(record.a.about, record.b.about); !found.empty()) {
    throw bad_input(where, "build", "B differs from A in " + first_of(found),
                    "a build with itself");
  }
}

void require_plan(const AbPlan& plan, const AbPlan& found, const std::string& where) {
  if (plan.pairs == found.pairs && plan.seconds == found.seconds && plan.turn_s == found.turn_s) {
    return;
  }
  throw bad_input(
      where, "plan",
      fmt::format("--pairs {} --seconds {} --turn {}", found.pairs, found.seconds, found.turn_s),
      fmt::format("--pairs {} --seconds {} --turn {}, as the others have", plan.pairs, plan.seconds,
                  plan.turn_s));
}

/// A unit of other work, another machine or another build is no unit of this calibration.
void require_same(const Calibration& calibration, const AbRecord& record,
                  const std::string& where) {
  auto differences = differing_fields(calibration.identity, record.a.identity);
  if (differences.empty()) differences = differing_fields(calibration.about, record.a.about);
  if (differences.empty()) return;
  throw Error(ExitCode::kNotComparable,
              fmt::format("{}: it is of other work, another machine or another build: {}", where,
                          first_of(differences)));
}

/// One standard deviation of the difference of two units' logarithms.
double session_deviation_of(const std::vector<CalibrationUnit>& units) {
  if (units.size() < 2) return 0;
  std::vector<double> logs;
  for (const CalibrationUnit& unit : units) logs.push_back(std::log(unit.step_s));
  return std::numbers::sqrt2 * standard_deviation(logs);
}

}  // namespace

CalibrationSummary summarize(const Calibration& calibration) {
  if (calibration.units.empty()) throw std::logic_error("calibration: no units");
  CalibrationSummary summary;
  std::vector<double> sizes;
  for (const CalibrationUnit& unit : calibration.units) {
    summary.alarms += unit.alarm ? 1 : 0;
    sizes.push_back(std::abs(unit.worsening));
  }
  summary.units = static_cast<int64_t>(calibration.units.size());
  summary.alarm_rate = clopper_pearson(summary.alarms, summary.units);
  summary.noise_floor_frac = std::expm1(quantile(sizes, kFloorQuantile));
  summary.session_deviation = session_deviation_of(calibration.units);
  summary.units_needed = units_needed(summary.alarms, summary.units);
  summary.refusal = refusal_of(summary);
  return summary;
}

CalibrationUnit unit_of(const AbRecord& record, const AbVerdict& verdict) {
  const CompareVerdict found = verdict.comparison.verdict;
  if (found == CompareVerdict::kNotComparable || found == CompareVerdict::kInvalidClocks) {
    throw Error(exit_code_of(found), verdict.comparison.reasons.front());
  }
  CalibrationUnit unit;
  unit.created_utc = record.created_utc;
  unit.verdict = verdict_name(found);
  unit.alarm = found == CompareVerdict::kRegression;
  std::vector<double> steps_s;
  for (int64_t i = 0; i < verdict.judged_pairs; ++i) {
    const AbPairFigure& pair = verdict.pairs[static_cast<size_t>(i)];
    unit.pairs.push_back(pair.worsening);
    steps_s.push_back(pair.a_step_s);
  }
  unit.step_s = median(steps_s);
  unit.worsening = hodges_lehmann(unit.pairs);
  return unit;
}

void add_unit(Calibration& calibration, const AbRecord& record, const std::string& where) {
  require_itself(record, where);
  if (calibration.units.empty()) {
    calibration.identity = record.a.identity;
    calibration.about = record.a.about;
    calibration.benchmark = record.a.benchmark;
    calibration.variant = record.a.variant;
    calibration.plan.pairs = record.plan.pairs;
    calibration.plan.seconds = record.plan.seconds;
    calibration.plan.turn_s = record.plan.turn_s;
  }
  require_plan(calibration.plan, record.plan, where);
  require_same(calibration, record, where);
  AbOptions uncalibrated;  // a margin that a floor widened would hide alarms
  uncalibrated.noise_floor_frac = 0;
  calibration.units.push_back(unit_of(record, judge_ab(record, uncalibrated)));
}

Calibration calibration_of_records(const std::filesystem::path& folder) {
  struct Named {
    std::string where;
    AbRecord record;
  };
  std::vector<Named> records;
  for (const std::filesystem::path& file : files_named(folder, "ab.json")) {
    records.push_back({file.string(), read_ab(file)});
  }
  if (records.empty()) {
    throw bad_input(folder.string(), "", "no ab.json", "a folder of recorded comparisons");
  }
  std::ranges::stable_sort(
      records, {}, [](const Named& named) -> const auto& { return named.record.created_utc; });
  Calibration calibration;
  std::map<std::string, std::string> places;  // the place of each content
  for (const auto& [where, record] : records) {
    const auto [place, is_new] = places.emplace(ab_json(record), where);
    if (!is_new) {
      throw bad_input(where, "", "the same comparison as " + place->second, "each of them once");
    }
    add_unit(calibration, record, where);
  }
  return calibration;
}

std::string calibration_json(const Calibration& calibration) {
  const AbPlan& plan = calibration.plan;
  CalibrationFile file{calibration.benchmark,
                       calibration.variant,
                       calibration.identity,
                       calibration.about,
                       plan.pairs,
                       plan.seconds,
                       plan.turn_s,
                       {},
                       calibration.units};
  if (!file.units.empty()) file.summary = summarize(calibration);
  return document_text(json::kCalibrationDocument, json::tree_of(file));
}

Calibration read_calibration(const std::filesystem::path& path) {
  const auto file = std::filesystem::is_directory(path) ? path / kFileName : path;
  const std::string where = file.string();
  const auto found = read_document<CalibrationFile>(read_file(file), json::kCalibrationDocument,
                                                    where, {json::Bounds::kRequired});
  if (found.units.empty()) throw bad_input(where, "units", "[]", "at least one");
  Calibration calibration;
  calibration.benchmark = found.benchmark;
  calibration.variant = found.variant;
  calibration.identity = found.identity;
  calibration.about = found.about;
  calibration.plan.pairs = found.pairs;
  calibration.plan.seconds = found.seconds;
  calibration.plan.turn_s = found.turn_s;
  calibration.units = found.units;
  return calibration;
}

Noise usable_noise(const Calibration& calibration, const Strings& identity,
                   const std::string& where) {
  if (const std::string words = misfit(calibration, identity); !words.empty()) {
    throw Error(ExitCode::kNotComparable,
                fmt::format("{}: calibrated for other work or another machine: {}", where, words));
  }
  const CalibrationSummary summary = summarize(calibration);
  if (!summary.refusal.empty()) {
    throw Error(ExitCode::kBaselineNeeded, where + ": " + summary.refusal);
  }
  return {summary.noise_floor_frac, summary.session_deviation};
}

std::vector<NamedCalibration> read_calibrations(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  if (fs::is_directory(path) && !fs::exists(path / kFileName)) {
    files = files_named(path, kFileName);
  }
  if (files.empty()) files = {path};
  std::vector<NamedCalibration> calibrations;
  for (const fs::path& file : files) {
    calibrations.push_back({file.string(), read_calibration(file)});
  }
  return calibrations;
}

std::optional<Noise> fitting_noise(const std::vector<NamedCalibration>& calibrations,
                                   const Strings& identity) {
  for (const auto& [where, calibration] : calibrations) {
    if (misfit(calibration, identity).empty()) return usable_noise(calibration, identity, where);
  }
  return std::nullopt;
}

Noise usable_noise(const std::vector<NamedCalibration>& calibrations, const Strings& identity) {
  if (const auto noise = fitting_noise(calibrations, identity)) return *noise;
  // The reason can be given where there is only one.
  if (calibrations.size() == 1) {
    return usable_noise(calibrations.front().calibration, identity, calibrations.front().where);
  }
  throw Error(ExitCode::kNotComparable,
              fmt::format("{}: none of {} calibrations is of this work on this machine",
                          calibrations.front().where, calibrations.size()));
}

namespace {

std::string verdicts(const Calibration& calibration) {
  std::map<std::string, int64_t> counts;
  for (const CalibrationUnit& unit : calibration.units) ++counts[unit.verdict];
  std::vector<std::string> parts;
  for (const auto& [verdict, count] : counts) parts.push_back(fmt::format("{} {}", count, verdict));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string units(const Calibration& calibration) {
  MarkdownTable table({{"unit", Align::kRight},
                       {"made"},
                       {"pairs", Align::kRight},
                       {"A's step, ms", Align::kRight},
                       {"B / A, images/s", Align::kRight},
                       {"verdict"}});
  for (size_t i = 0; i < calibration.units.size(); ++i) {
    const CalibrationUnit& unit = calibration.units[i];
    table.add_row({std::to_string(i + 1), unit.created_utc, std::to_string(unit.pairs.size()),
                   format_ms(unit.step_s), fmt::format("{:.4f}", std::exp(-unit.worsening)),
                   unit.alarm ? "**" + unit.verdict + "**" : unit.verdict});
  }
  return table.text();
}

}  // namespace

std::string calibration_markdown(const Calibration& calibration) {
  const CalibrationSummary summary = summarize(calibration);
  const bool usable = summary.refusal.empty();
  return finished_page(fmt::format(
      "# {}: {}, {}\n\n{}Noise floor of images/s: {}. Measurements made apart differ by {} (one "
      "standard deviation, units from {} to {}). False alarms: {} in {} ({} to {}, Clopper and "
      "Pearson, 95 %). Verdicts: {}.\n\nA unit is a comparison of one build with itself: {} pairs "
      "of live processes, as many again when that is inconclusive. The noise floor is what 95 % of "
      "the units stayed within; a gate's margin is twice the noise floor where that is wider than "
      "its own. For runs that were not made in turns the difference between separate units is "
      "added to the uncertainty; units of several days measure it better.\n\n## Units\n\n{}\n## "
      "Next\n\n{}\n{}",
      usable ? "calibrated" : "CALIBRATION NEEDED", calibration.benchmark, calibration.variant,
      usable ? "" : "- " + summary.refusal + "\n\n", format_percent(summary.noise_floor_frac),
      format_percent(std::expm1(summary.session_deviation)), calibration.units.front().created_utc,
      calibration.units.back().created_utc, summary.alarms, summary.units,
      format_percent(summary.alarm_rate.low), format_percent(summary.alarm_rate.high),
      verdicts(calibration), calibration.plan.pairs, units(calibration),
      usable
          ? "Give this file to `noisemark ab` and `noisemark compare` with --calibration."
          : "Make the machine quieter (`noisemark doctor`), or add units: repeat the command with "
            "the same --out. With --from, record more comparisons and give a new --out.",
      kGlossaryLine));
}

}  // namespace noisemark::reports
