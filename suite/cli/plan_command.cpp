#include "suite/cli/plan_command.h"

#include <fmt/format.h>

#include <optional>

#include "suite/run/memory_plan.h"
#include "suite/run/plan.h"
#include "suite/run/single_run.h"

namespace noisemark::suite {
namespace {

constexpr const char* kAccepted =
    "2GiB, 512MiB, 20.05MiB or saved=512MiB, and ,error=0.01 behind it where errors are allowed";

std::string mode_of(const Arguments& arguments) {
  if (!arguments.has("budget")) throw bad_input("--budget", "", "nothing given", kAccepted);
  const std::string text = arguments.text("budget");
  const std::optional<memopt::Budget> budget = memopt::read_budget(text);
  if (!budget) throw bad_input("--budget", "", text, kAccepted);
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
                              memopt::spell_at_least(smallest)));
}

}  // namespace noisemark::suite
