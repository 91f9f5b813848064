#include "suite/cli/compare_command.h"

#include <optional>

#include "reports/ab/calibration.h"
#include "reports/ab/same_work.h"
#include "reports/compare/compare.h"
#include "reports/compare/comparison_json.h"
#include "reports/compare/comparison_markdown.h"
#include "reports/export/junit.h"
#include "suite/cli/output_format.h"

namespace noisemark::suite {

using reports::Comparison;

namespace {

/// Each cell gets the noise of the calibration that is of its work; a cell of which there is
/// none is judged without, and the comparison says so. At least one must be of a cell here.
reports::StochasticOptions options_of(const Arguments& arguments, const reports::Side& base,
                                      const reports::Side& candidate) {
  reports::StochasticOptions options;
  options.gates = !arguments.has("exact");
  if (!arguments.has("calibration")) return options;
  const std::string path = arguments.text("calibration");
  const auto calibrations = reports::read_calibrations(path);
  std::optional<reports::Strings> first;
  for (const reports::Side* side : {&base, &candidate}) {
    for (const reports::NamedResult& run : side->runs) {
      const reports::Strings work = reports::same_work(run.result);
      if (!first) first = work;
      if (const auto noise = reports::fitting_noise(calibrations, work)) {
        options.noise[reports::cell_name(run.result.identity) + ": images_per_s"] = *noise;
      }
    }
  }
  // Says why.
  if (options.noise.empty() && first) (void)reports::usable_noise(calibrations, *first);
  return options;
}

}  // namespace

std::vector<std::string> comparison_formats() {
  std::vector<std::string> all = {"md", "json", "junit"};
  all.insert(all.end(), figure_formats().begin(), figure_formats().end());
  return all;
}

std::string comparison_text(const Comparison& comparison, const std::string& format) {
  if (format == "json") return reports::comparison_json(comparison);
  if (format == "junit") return reports::junit_of(comparison);
  std::string text = figures_text(format, reports::figures_of(comparison));
  // A test may say more than its measurements.
  const std::string words = reports::let_pass(comparison);
  if (format == "ctest" && !words.empty()) text += words + "\n";
  return text;
}

reports::Inconclusive inconclusive_of(const Arguments& arguments, std::string_view command) {
  const bool warns = one_of(arguments, command, "inconclusive", {"fail", "warn"}) == "warn";
  return warns ? reports::Inconclusive::kWarns : reports::Inconclusive::kFails;
}

Answer compare_results(const Arguments& arguments) {
  const std::string format = one_of(arguments, "compare", "format", comparison_formats());
  const reports::Inconclusive inconclusive = inconclusive_of(arguments, "compare");
  const auto& paths = arguments.positional();
  const auto [base, candidate] = reports::read_sides(paths[0], paths[1]);
  Comparison comparison = reports::compare(base, candidate, options_of(arguments, base, candidate));
  comparison.inconclusive = inconclusive;
  Answer answer;
  answer.text = deliver(arguments, format == "md" ? reports::comparison_markdown(comparison)
                                                  : comparison_text(comparison, format));
  answer.code = exit_code_of(comparison);
  answer.warning = reports::let_pass(comparison);
  return answer;
}

}  // namespace noisemark::suite
