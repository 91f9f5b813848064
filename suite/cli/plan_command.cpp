#include "suite/cli/plan_command.h"

#include <fmt/format.h>

#include <optional>

#include "suite/run/deterministic.h"
#include "suite/run/memory_plan.h"
#include "suite/run/plan.h"
#include "suite/run/single_run.h"

namespace noisemark::suite {
namespace {

std::string mode_of(const Arguments& arguments) {
  const std::string accepted = memopt::budget_forms();
  if (!arguments.has("budget")) throw bad_input("--budget", "", "nothing given", accepted);
  const std::string text = arguments.text("budget");
  const std::optional<memopt::Budget> budget = memopt::read_budget(text);
  if (!budget) throw bad_input("--budget", "", text, accepted);
  return memopt::spell_budget(*budget);
}

}  // namespace

Answer plan_memory(const Arguments& arguments, RunOptions options) {
  choose_cublas_workspace();  // that of a run, whose memory it counts in
  options.modes = {mode_of(arguments)};
  require_benchmark("plan", options.id);
  const PlannedRun planned = plan_runs(options).front();
  apply_variant(planned.variant);
  const MemoryPlan plan = make_memory_plan(session_options(options, planned));
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
                              memopt::spell_at_least(smallest)));
}

}  // namespace noisemark::suite
