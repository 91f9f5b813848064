#include "suite/cli/baseline_command.h"

#include "reports/baseline/promote.h"
#include "reports/error.h"
#include "reports/nearest.h"

namespace noisemark::suite {
namespace {

Answer promote(const Arguments& arguments, const std::vector<std::string>& paths) {
  reports::PromoteOptions options;
  if (arguments.has("into")) options.into = arguments.text("into");
  options.hardware = arguments.text("hardware");
  options.force = arguments.has("force");
  return {reports::promote_baseline(paths, options).text, ExitCode::kPass};
}

Answer show(const std::vector<std::string>& paths) {
  Answer answer;
  for (const std::string& path : paths) answer.text += reports::show_baselines(path);
  return answer;
}

}  // namespace

Answer keep_baseline(const Arguments& arguments) {
  const std::string& action = arguments.positional().front();
  const std::vector<std::string> paths(arguments.positional().begin() + 1,
                                       arguments.positional().end());
  if (action == "promote") return promote(arguments, paths);
  if (action == "show") return show(paths);
  const std::vector<std::string> actions = {"promote", "show"};
  throw bad_input("baseline", "", action, reports::accepted_names(action, actions));
}

}  // namespace noisemark::suite
