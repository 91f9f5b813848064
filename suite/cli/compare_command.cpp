#include "suite/cli/compare_command.h"

#include "reports/compare/compare.h"
#include "reports/compare/comparison_json.h"
#include "reports/compare/comparison_markdown.h"

namespace noisemark::suite {
namespace {

/// The word behind an option of two words; the first when it was not given.
std::string one_of(const Arguments& arguments, const std::string& flag, const std::string& first,
                   const std::string& second) {
  const std::string word = arguments.has(flag) ? arguments.text(flag) : first;
  if (word == first || word == second) return word;
  throw bad_input("compare", "--" + flag, word, "one of: " + first + ", " + second);
}

}  // namespace

Answer compare_results(const Arguments& arguments) {
  const std::string format = one_of(arguments, "format", "md", "json");
  const std::string inconclusive = one_of(arguments, "inconclusive", "fail", "warn");
  const reports::Side base = reports::read_side(arguments.positional()[0]);
  const reports::Side candidate = reports::read_side(arguments.positional()[1]);
  const reports::Comparison comparison = reports::compare(base, candidate);
  Answer answer;
  answer.text = format == "json" ? reports::comparison_json(comparison)
                                 : reports::comparison_markdown(comparison);
  answer.code = reports::exit_code_of(comparison.verdict);
  const bool pardoned = answer.code == ExitCode::kInconclusive && inconclusive == "warn";
  if (pardoned) answer.code = ExitCode::kPass;
  return answer;
}

}  // namespace noisemark::suite
