#include "tests/suite/run/small_nets.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <ostream>
#include <set>
#include <span>
#include <utility>

#include "suite/run/passes/memory_plan.h"
#include "suite/run/passes/session.h"
#include "suite/run/passes/watch.h"
#include "suite/run/spec/plan.h"

namespace noisemark::suite::test {
namespace {

using memopt::StepGraph;

bool is_ho(const std::string& net) {
  return net.starts_with("ho");
}

SessionOptions session_under(const SmallTraining& training, const std::string& mode) {
  RunOptions options;
  options.id = is_ho(training.net) ? "gmm16-" + training.net + "@cpu" : "gmm16@cpu";
  options.device = "cpu";
  options.modes = {mode};
  options.baselines = {training.baseline};
  options.precision = training.precision;
  options.sets = small_sets(training.net);
  return session_options(options, plan_runs(options).front());
}

std::string half_budget(const SmallTraining& training) {
  const MemoryPlan plan = make_memory_plan(session_under(training, "budget:64GiB"));
  const int64_t all_bytes = plan.planner->curve().front().peak_bytes;
  return "budget:" + std::to_string((all_bytes + plan.planner->smallest_bytes()) / 2);
}

/// Changes the parameters, so that no weight is the 0 or 1 that it began with.
void perturb(const NamedTensors& parameters) {
  const at::NoGradGuard no_grad;
  at::manual_seed(11);
  for (const auto& [name, parameter] : parameters) {
    parameter.add_(at::randn(parameter.sizes()).mul_(0.02));
  }
}

/// Returns whether operator `op` is the last of `chain`, read back from there.
bool ends(std::span<const std::string_view> chain, const StepGraph& graph, memopt::OperatorId op) {
  if (op == memopt::kNone) return false;
  const memopt::RecordedOperator& recorded = graph.operators[static_cast<size_t>(op)];
  if (recorded.name != chain.back()) return false;
  if (chain.size() == 1) return true;
  const auto before = chain.first(chain.size() - 1);
  for (const memopt::Argument& argument : recorded.arguments) {
    for (const memopt::ValueId input : argument.values) {
      if (input == memopt::kNone) continue;
      if (ends(before, graph, graph.values[static_cast<size_t>(input)].producer)) return true;
    }
  }
  return false;
}

}  // namespace

std::ostream& operator<<(std::ostream& to, const SmallTraining& training) {
  return to << training.net << ' ' << training.mode << '-' << training.baseline << '-'
            << training.precision;
}

std::string test_name(const SmallTraining& training) {
  std::string name = training.net + '_' + training.mode;
  if (training.baseline != "plain") name += '_' + training.baseline;
  if (training.precision != "fp32") name += '_' + training.precision;
  std::replace_if(
      name.begin(), name.end(),
      [](char letter) { return std::isalnum(static_cast<unsigned char>(letter)) == 0; }, '_');
  return name;
}

std::vector<std::string> small_sets(const std::string& net) {
  std::vector<std::string> sets = {"model.dim=16",          "model.dropout=0.1", "train.batch=2",
                                   "data.train_samples=64", "eval.samples=8",    "eval.every=0"};
  const std::vector<std::string> own =
      is_ho(net) ? std::vector<std::string>{"model.res_blocks=1"}
                 : std::vector<std::string>{"model.attn_heads=2", "model.attn_dim_head=8"};
  sets.insert(sets.end(), own.begin(), own.end());
  return sets;
}

SessionOptions small_session(const SmallTraining& training) {
  const bool half = training.mode == kHalfBudget;
  return session_under(training, half ? half_budget(training) : training.mode);
}

SideBySide beside_none(const SmallTraining& training) {
  Progress line("", 1, 2);
  const InterruptGuard interrupt;
  return train_side_by_side(small_session(training), {line, interrupt});
}

FollowedPlan follow_plan(const SmallTraining& training) {
  SessionOptions options = small_session(training);
  const int64_t steps = options.spec.mode.forwards_until_steady + 2;
  options.spec.definition.train.steps = steps;
  const Session session = make_session(options);
  perturb(session.trainer->parameters());
  while (session.trainer->next_step() < steps) static_cast<void>(session.trainer->step());
  const auto& mode = dynamic_cast<const memopt::PlannedMode&>(*session.mode);
  return {mode.report(), mode.plan()};
}

bool makes_again(const memopt::TreatmentPlan& plan, const std::vector<std::string_view>& chain) {
  for (size_t v = 0; v < plan.values.size(); ++v) {
    if (plan.values[v].source != memopt::Source::kMadeAgain) continue;
    const memopt::Recipe& recipe = *plan.recipes[static_cast<size_t>(plan.values[v].recipe)];
    if (recipe.name != chain.back()) continue;
    // A shortcut by an operator that nobody recorded has a name of its own; others have that of the
    // operator whose result they give, and are not meant here.
    const bool is_meant = recipe.is_shortcut
                              ? chain.back().ends_with("_from_statistics")
                              : ends(chain, *plan.graph, plan.graph->values[v].producer);
    if (is_meant) return true;
  }
  return false;
}

std::string made_again(const memopt::TreatmentPlan& plan) {
  std::set<std::string> names;
  for (const auto& recipe : plan.recipes) names.insert(recipe->name);
  return fmt::format("{}", fmt::join(names, " "));
}

}  // namespace noisemark::suite::test
