#include <fmt/format.h>

#include <cmath>
#include <map>

#include "reports/ab/calibration.h"
#include "reports/markdown.h"
#include "reports/quantity.h"

namespace noisemark::reports {
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
  return fmt::format(
      "# {}: {}, {}\n\n{}Noise floor of images/s: {}. Measurements made apart differ by {} (one "
      "standard deviation, units from {} to {}). False alarms: {} in {} ({} to {}, Clopper "
      "and Pearson, 95 %). Verdicts: {}.\n\nA unit is a comparison of one build with itself: {} "
      "pairs of live processes, as many again when inconclusive. The noise floor is what 95 % of "
      "the units stayed within; a gate takes twice of it as its margin where that is more than its "
      "own. How far the steps of separate units differ is added to the doubt about runs that were "
      "not made in turns; units made on several days know more of it.\n\n## Units\n\n{}\n## "
      "Next\n\n{}\n",
      usable ? "calibrated" : "CALIBRATION NEEDED", calibration.benchmark, calibration.variant,
      usable ? "" : "- " + summary.refusal + "\n\n", format_percent(summary.noise_floor_frac),
      format_percent(std::expm1(summary.session_deviation)), calibration.units.front().created_utc,
      calibration.units.back().created_utc, summary.alarms, summary.units,
      format_percent(summary.alarm_rate.low), format_percent(summary.alarm_rate.high),
      verdicts(calibration), calibration.plan.pairs, units(calibration),
      usable ? "Give this file to `noisemark ab` and `noisemark compare` with --calibration."
             : "Make the machine quieter (`noisemark doctor`) or add units: the same command with "
               "the same --out goes on; of recorded comparisons (--from) more are needed, and a "
               "new --out.");
}

}  // namespace noisemark::reports
