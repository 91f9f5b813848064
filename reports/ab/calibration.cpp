#include "reports/ab/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <stdexcept>

#include "reports/ab/strict_json.h"
#include "reports/compare/comparable.h"
#include "reports/compare/paired_estimate.h"
#include "reports/compare/proportion.h"
#include "reports/compare/stochastic_tier.h"
#include "reports/error.h"
#include "reports/file.h"
#include "reports/quantity.h"
#include "reports/statistics.h"

namespace noisemark::reports {
namespace {

constexpr double kFloorQuantile = 0.95;
constexpr int64_t kMostUnits = 10000;
constexpr const char* kFileName = "calibration.json";

/// In all, with which the alarms seen so far would allow gating.
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
        "{} false alarms in {} units: the rate may be as high as {} (at most {}); {} units without "
        "a further alarm would do",
        summary.alarms, summary.units, format_percent(summary.alarm_rate.high),
        format_percent(kMostFalseAlarmsFrac), summary.units_needed);
  }
  if (2 * summary.noise_floor_frac > kWidestMarginFrac) {
    return fmt::format("a noise floor of {} leaves no gate",
                       format_percent(summary.noise_floor_frac));
  }
  return "";
}

OrderedJson json_of(const CalibrationUnit& unit) {
  return {{"created_utc", unit.created_utc}, {"verdict", unit.verdict}, {"alarm", unit.alarm},
          {"worsening", unit.worsening},     {"pairs", unit.pairs},     {"step_s", unit.step_s}};
}

OrderedJson json_of(const CalibrationSummary& summary) {
  return {{"units", summary.units},
          {"alarms", summary.alarms},
          {"alarm_rate_ci95", {{"low", summary.alarm_rate.low}, {"high", summary.alarm_rate.high}}},
          {"noise_floor_frac", summary.noise_floor_frac},
          {"session_deviation", summary.session_deviation},
          {"units_needed", summary.units_needed},
          {"refusal", summary.refusal}};
}

/// Noise does not depend on it.
bool belongs_to_seed(const std::string& field) {
  return field == "seeds.base" || field == "provenance.init_weights_sha256";
}

/// In words, where it is of other work or another machine; empty: it fits.
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
    throw bad_input(where, "B is another build than A", "differs in " + first_of(found),
                    "a build with itself");
  }
}

void require_plan(const AbPlan& plan, const AbPlan& found, const std::string& where) {
  if (plan.pairs == found.pairs && plan.seconds == found.seconds && plan.turn_s == found.turn_s) {
    return;
  }
  throw bad_input(
      where, "",
      fmt::format("of --pairs {} --seconds {} --turn {}", found.pairs, found.seconds, found.turn_s),
      fmt::format("as the others: {}, {}, {}", plan.pairs, plan.seconds, plan.turn_s));
}

/// A unit of other work, another machine or another build is no unit of this calibration.
void require_same(const Calibration& calibration, const AbRecord& record,
                  const std::string& where) {
  auto differences = differing_fields(calibration.identity, record.a.identity);
  if (differences.empty()) differences = differing_fields(calibration.about, record.a.about);
  if (differences.empty()) return;
  throw Error(ExitCode::kNotComparable,
              fmt::format("{}: is of other work, another machine or another build: differs in {}",
                          where, first_of(differences)));
}

/// One standard deviation of the difference of two units' logarithms.
double session_deviation_of(const std::vector<CalibrationUnit>& units) {
  if (units.size() < 2) return 0;
  std::vector<double> logs;
  for (const CalibrationUnit& unit : units) logs.push_back(std::log(unit.step_s));
  return std::numbers::sqrt2 * standard_deviation(logs);
}

CalibrationUnit unit_of(const JsonFields& fields) {
  CalibrationUnit unit;
  unit.created_utc = fields.text("created_utc");
  unit.verdict = fields.text("verdict");
  unit.alarm = fields.flag("alarm");
  unit.worsening = fields.number("worsening");
  unit.pairs = fields.numbers("pairs");
  unit.step_s = fields.number("step_s");
  if (!(unit.step_s > 0)) throw fields.refusal("step_s", "seconds above 0");
  return unit;
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
  AbOptions uncalibrated;  // as a margin that a floor widened would hide alarms
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
  std::map<std::string, std::string> places;  // by what they hold
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
  OrderedJson units = OrderedJson::array();
  for (const CalibrationUnit& unit : calibration.units) units.push_back(json_of(unit));
  OrderedJson body = {{"benchmark", calibration.benchmark}, {"variant", calibration.variant},
                      {"identity", calibration.identity},   {"about", calibration.about},
                      {"pairs", calibration.plan.pairs},    {"seconds", calibration.plan.seconds},
                      {"turn_s", calibration.plan.turn_s}};
  if (!calibration.units.empty()) body["summary"] = json_of(summarize(calibration));
  body["units"] = units;
  return sealed_json(kCalibrationSchemaName, kCalibrationSchemaVersion, body);
}

Calibration read_calibration(const std::filesystem::path& path) {
  const auto file = std::filesystem::is_directory(path) ? path / kFileName : path;
  const std::string where = file.string();
  const OrderedJson json =
      unseal_json(read_file(file), kCalibrationSchemaName, kCalibrationSchemaVersion, where);
  const JsonFields fields(json, where);
  Calibration calibration;
  calibration.benchmark = fields.text("benchmark");
  calibration.variant = fields.text("variant");
  calibration.identity = fields.strings("identity");
  calibration.about = fields.strings("about");
  calibration.plan.pairs = fields.count("pairs");
  calibration.plan.seconds = fields.number("seconds");
  if (fields.has("turn_s")) calibration.plan.turn_s = fields.number("turn_s");
  for (const JsonFields& unit : fields.objects("units")) calibration.units.push_back(unit_of(unit));
  if (calibration.units.empty()) throw fields.refusal("units", "at least one");
  require_known(json, parse_json(calibration_json(calibration), where), where);
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
  // Of one alone it can be said why.
  if (calibrations.size() == 1) {
    return usable_noise(calibrations.front().calibration, identity, calibrations.front().where);
  }
  throw Error(ExitCode::kNotComparable,
              fmt::format("{}: none of {} calibrations is of this work on this machine",
                          calibrations.front().where, calibrations.size()));
}

}  // namespace noisemark::reports
