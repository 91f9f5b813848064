#include "suite/run/memory_plan.h"

#include <algorithm>

#include "reports/error.h"
#include "reports/pareto_plot.h"
#include "suite/data/loader.h"

namespace noisemark::suite {

MemoryPlan make_memory_plan(const SessionOptions& options) {
  SessionOptions own = options;
  const memopt::Budget budget = memopt::parse_budget(options.variant.mode);
  const int64_t steps = memopt::BudgetMode(budget).forwards_until_steady();
  // The loader makes batches ahead, which are live while the step is recorded: as many as in a run.
  own.definition.train.steps = steps + LoaderOptions().prefetch;
  const Session session = make_session(own);
  const auto& mode = dynamic_cast<const memopt::BudgetMode&>(*session.mode);
  Trainer& trainer = *session.trainer;
  while (trainer.next_step() < steps && mode.planner() == nullptr) {
    static_cast<void>(trainer.step());
  }
  if (mode.planner() == nullptr) {
    throw bad_input("plan", "", own.definition.id,
                    "a step that can be recorded; " + mode.report().missing_reason);
  }
  MemoryPlan plan;
  plan.id = own.definition.id + "@" + own.definition.scale;
  plan.variant = variant_label(options.variant);
  plan.budget = budget;
  plan.planner = mode.planner();
  plan.answer = mode.answer();
  plan.planning_s = mode.planning_s();
  plan.measured_error = mode.measured_error();
  plan.probed_passes = mode.probed_passes();
  return plan;
}

std::string draw_memory_plan(const MemoryPlan& plan, const std::filesystem::path& folder) {
  const memopt::BudgetTarget target = plan.budget.target;
  std::vector<reports::ParetoPoint> points;
  for (const memopt::PlanPoint& point : plan.planner->curve()) {
    const bool chosen = plan.answer && plan.answer->point.chosen == point.chosen;
    points.push_back({point.of(target), static_cast<double>(point.cost_ns) * 1e-9, chosen});
  }
  const char* label = target == memopt::BudgetTarget::kPeak ? "peak_bytes" : "peak_saved_bytes";
  return reports::write_plots(folder,
                              std::vector{reports::pareto_plot(points, plan.budget.bytes, label)})
      .left_out;
}

}  // namespace noisemark::suite
