#include "suite/cli/plan_command.h"

#include <fmt/format.h>

#include <optional>

#include "reports/quantity.h"
#include "suite/run/memory_plan.h"
#include "suite/run/plan.h"
#include "suite/run/single_run.h"

namespace noisemark::suite {
namespace {

std::string mode_of(const Arguments& arguments) {
  if (!arguments.has("budget")) {
    throw bad_input("--budget", "", "nothing given", "2GiB, 512MiB, or saved=512MiB");
  }
  const std::string text = arguments.text("budget");
  const std::optional<memopt::Budget> budget = memopt::read_budget(text);
  if (!budget) throw bad_input("--budget", "", text, "2GiB, 512MiB, or saved=512MiB");
  return memopt::spell_budget(*budget);
}

}  // namespace

Answer plan_memory(const Arguments& arguments, RunOptions options) {
  options.modes = {mode_of(arguments)};
  const std::vector<PlannedRun> runs = plan_runs(options);
  if (runs.size() != 1) {
    throw bad_input("plan", "", options.id, "one benchmark, under one baseline");
  }
  apply_variant(runs.front().variant);
  const MemoryPlan plan = make_memory_plan(session_options(options, runs.front()));
  Answer answer;
  answer.text = memory_plan_text(plan);
  if (!options.out.empty()) {
    const std::string left_out = draw_memory_plan(plan, options.out);
    if (!left_out.empty()) answer.text += fmt::format("\nNo plot: {}.\n", left_out);
  }
  if (plan.answer) return answer;
  const int64_t smallest = plan.planner->smallest_bytes();
  throw bad_input("--budget", "", arguments.text("budget"),
                  fmt::format("the smallest that can be met is {} bytes, {}", smallest,
                              reports::format_bytes(smallest)));
}

}  // namespace noisemark::suite
