#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/ab/judge.h"
#include "reports/compare/compare.h"
#include "reports/compare/sides.h"

/// The noise of a comparison of a build with itself on one machine, and its rate of false alarms.
namespace noisemark::reports {

/// A false-alarm rate that may lie above this gates nothing.
inline constexpr double kMostFalseAlarmsFrac = 0.10;

/// One comparison of a build with itself.
struct CalibrationUnit {
  std::string created_utc;
  std::string verdict;        ///< verdict_name()
  bool alarm = false;         ///< a regression, or a figure without noise that differed
  double worsening = 0;       ///< log of B's step over A's: Hodges-Lehmann over its judged pairs
  std::vector<double> pairs;  ///< worsening of each judged pair
  double step_s = 0;          ///< step of A: median over the judged pairs
};

struct Calibration {
  Strings identity;  ///< identity of what it holds for, in the form of AbBuild::identity
  Strings about;     ///< facts about what was calibrated, in the form of AbBuild::about
  std::string benchmark;
  std::string variant;
  AbPlan plan;  ///< every unit's plan: pairs, seconds and turn_s alone
  std::vector<CalibrationUnit> units;
};

/// The figures that follow from the units.
struct CalibrationSummary {
  int64_t units = 0;
  int64_t alarms = 0;
  Interval alarm_rate;          ///< Clopper and Pearson, 95 %
  double noise_floor_frac = 0;  ///< 95 % of the units show at most this difference
  /// The standard deviation of the log step time between two runs made apart. Turns take out how
  /// fast the machine is just then; runs made apart have it, and this says how much that is.
  double session_deviation = 0;
  int64_t units_needed = 0;  ///< sum of units, if no further one is an alarm
  std::string refusal;       ///< why nothing may be gated with it; empty: it is usable
};

/// Throws std::logic_error without units.
[[nodiscard]] CalibrationSummary summarize(const Calibration& calibration);

/// Makes a unit of the record of a build beside itself. Throws Error where the two were not
/// comparable or the device slowed itself down: such a comparison says nothing of what comparisons
/// come to.
[[nodiscard]] CalibrationUnit unit_of(const AbRecord& record, const AbVerdict& verdict);

/// Adds one comparison as a unit. The first gives the calibration its plan, work, machine and
/// build. Throws Error, which begins with `where`: bad input where the record is no untouched
/// comparison of a build with itself, ended early, or follows another plan than the others; not
/// comparable where it is of other work, another machine or another build; and as unit_of().
void add_unit(Calibration& calibration, const AbRecord& record, const std::string& where);

/// Makes a calibration of every ab.json in `folder` and below it, in the order of their making.
/// Throws Error (bad input) as read_ab(), and where there is none; and as add_unit().
[[nodiscard]] Calibration calibration_of_records(const std::filesystem::path& folder);

/// The text of calibration.json, with the summary for other readers; from the units it is made
/// again when it is read. Carries a checksum over itself.
[[nodiscard]] std::string calibration_json(const Calibration& calibration);

/// `path` is the file, or the folder that holds a calibration.json. Throws Error (bad input) as
/// read_ab().
[[nodiscard]] Calibration read_calibration(const std::filesystem::path& path);

/// One of several, under the name by which errors call it.
struct NamedCalibration {
  std::string where;
  Calibration calibration;
};

/// Reads what lies behind `path`: one calibration, as read_calibration() does, or a folder with
/// several in folders of their own, at any depth, in the order of their paths. Throws Error (bad
/// input) likewise.
[[nodiscard]] std::vector<NamedCalibration> read_calibrations(const std::filesystem::path& path);

/// Returns a page for people: noise floor, false alarms, whether it may gate, and every unit.
[[nodiscard]] std::string calibration_markdown(const Calibration& calibration);

/// The noise for a gate. Throws Error: «calibration needed» (exit code 5) when the calibration
/// refuses to gate; «not comparable» (exit code 3) when it is of other work or of another machine
/// than `identity` (another seed does not matter); both begin with `where`.
[[nodiscard]] Noise usable_noise(const Calibration& calibration, const Strings& identity,
                                 const std::string& where);

/// Returns that noise of the calibration, among several, that is of this work on this machine.
[[nodiscard]] Noise usable_noise(const std::vector<NamedCalibration>& calibrations,
                                 const Strings& identity);

/// Returns it likewise; empty where none of them is of this work on this machine.
[[nodiscard]] std::optional<Noise> fitting_noise(const std::vector<NamedCalibration>& calibrations,
                                                 const Strings& identity);

}  // namespace noisemark::reports
