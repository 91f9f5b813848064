#include "suite/run/memory_plan.h"

#include <algorithm>
#include <limits>

#include "reports/error.h"
#include "reports/pareto_plot.h"
#include "suite/data/loader.h"
#include "suite/probes/phase_timer.h"

namespace noisemark::suite {

namespace {

/// Two forward passes are recorded; other work on the machine only adds to what a step takes. What
/// the loader makes it wait for is no part of it.
double recorded_step_s(const reports::Samples& samples, int64_t passes_of_a_step) {
  const size_t recorded = std::min<size_t>(passes_of_a_step == 1 ? 2 : 1, samples.step_s.size());
  double shortest_s = std::numeric_limits<double>::infinity();
  for (size_t step = 0; step < recorded; ++step) {
    shortest_s = std::min(shortest_s, samples.step_s[step] - samples.data_wait_s[step]);
  }
  return shortest_s;
}

}  // namespace

MemoryPlan make_memory_plan(const SessionOptions& options) {
  SessionOptions own = options;
  const memopt::Budget budget = memopt::parse_budget(options.variant.mode);
  const int64_t steps = memopt::BudgetMode(budget).forwards_until_steady();
  // The loader makes batches ahead, which are live while the step is recorded: as many as in a run.
  own.definition.train.steps = steps + LoaderOptions().prefetch;
  const Session session = make_session(own);
  const auto& mode = dynamic_cast<const memopt::BudgetMode&>(*session.mode);
  Trainer& trainer = *session.trainer;
  PhaseTimer timer(options.variant.device);
  while (trainer.next_step() < steps && mode.planner() == nullptr) {
    static_cast<void>(trainer.step({&timer}));
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
  plan.recorded_step_s = recorded_step_s(timer.samples(), own.definition.train.accumulation);
  plan.planning_s = mode.planning_s();
  plan.codec_measuring_s = mode.codec_measuring_s();
  plan.measured_error = mode.measured_error();
  plan.probed_passes = mode.probed_passes();
  return plan;
}

double predicted_step_s(const MemoryPlan& plan, const memopt::PlanPoint& point) {
  return plan.recorded_step_s + static_cast<double>(point.cost_ns) * 1e-9;
}

std::string draw_memory_plan(const MemoryPlan& plan, const std::filesystem::path& folder) {
  const memopt::BudgetTarget target = plan.budget.target;
  std::vector<reports::ParetoPoint> points;
  for (const memopt::PlanPoint& point : plan.planner->curve()) {
    const bool chosen = plan.answer && plan.answer->point.same_plan_as(point);
    points.push_back({point.of(target), static_cast<double>(point.cost_ns) * 1e-9, chosen});
  }
  const char* label = target == memopt::BudgetTarget::kPeak ? "peak_bytes" : "peak_saved_bytes";
  return reports::write_plots(folder,
                              std::vector{reports::pareto_plot(points, plan.budget.bytes, label)})
      .left_out;
}

}  // namespace noisemark::suite
