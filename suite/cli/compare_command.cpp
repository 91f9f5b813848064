#include "suite/cli/compare_command.h"

#include "reports/compare/compare.h"
#include "reports/compare/comparison_json.h"
#include "reports/compare/comparison_markdown.h"
#include "reports/export/junit.h"
#include "suite/cli/output_format.h"

namespace noisemark::suite {
namespace {

using reports::Comparison;
using reports::Inconclusive;

std::vector<std::string> formats() {
  std::vector<std::string> all = {"md", "json", "junit"};
  all.insert(all.end(), figure_formats().begin(), figure_formats().end());
  return all;
}

std::string text_of(const Comparison& comparison, const std::string& format,
                    Inconclusive inconclusive) {
  if (format == "md") return reports::comparison_markdown(comparison);
  if (format == "json") return reports::comparison_json(comparison);
  if (format == "junit") return reports::junit_of(comparison, inconclusive);
  return figures_text(format, reports::figures_of(comparison));
}

}  // namespace

Answer compare_results(const Arguments& arguments) {
  const std::string format = one_of(arguments, "compare", "format", formats());
  const Inconclusive inconclusive =
      one_of(arguments, "compare", "inconclusive", {"fail", "warn"}) == "warn"
          ? Inconclusive::kWarns
          : Inconclusive::kFails;
  const auto& paths = arguments.positional();
  const auto [base, candidate] = reports::read_sides(paths[0], paths[1]);
  const Comparison comparison = reports::compare(base, candidate);
  Answer answer;
  answer.text = deliver(arguments, text_of(comparison, format, inconclusive));
  answer.code = reports::exit_code_of(comparison.verdict);
  const bool warns = inconclusive == Inconclusive::kWarns;
  if (answer.code == ExitCode::kInconclusive && warns) answer.code = ExitCode::kPass;
  return answer;
}

}  // namespace noisemark::suite
