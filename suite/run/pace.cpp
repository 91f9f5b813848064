#include "suite/run/run.h"

#include <nlohmann/json.hpp>

#include <iostream>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "reports/ab/ab_fields.h"
#include "reports/base/json_writer.h"
#include "reports/base/streams.h"
#include "reports/compare/sides.h"
#include "suite/environment/environment.h"
#include "suite/io/safetensors.h"
#include "suite/probes/phase_timer.h"
#include "suite/run/passes/session.h"
#include "suite/run/spec/plan.h"

namespace noisemark::suite {

namespace {

void answer(const nlohmann::ordered_json& json) {
  reports::print_out(json.dump() + "\n");
}

/// K of «run K».
int64_t parse_turn(const std::string& line) {
  std::istringstream words(line);
  std::string verb;
  int64_t steps = 0;
  if (words >> verb >> steps && verb == "run" && steps > 0) return steps;
  throw bad_input("pace", "", line, "run STEPS, or quit");
}

reports::PaceTurn take_turn(Trainer& trainer, int64_t steps, at::Device device,
                            std::optional<double> slow_down_frac) {
  PhaseTimer timer(device);
  SlowDown slow_down(device, slow_down_frac.value_or(0));
  std::vector<StepObserver*> observers = {&slow_down, &timer};
  if (!slow_down_frac) observers.erase(observers.begin());
  std::vector<double> losses;
  for (int64_t i = 0; i < steps; ++i) {
    const StepRecord record = trainer.step(observers);
    // An answer holds numbers alone, and a comparison losses that were trained on.
    if (!std::isfinite(record.loss)) throw NonFinite(record.step, "loss");
    losses.push_back(record.loss);
  }
  reports::PaceTurn turn{timer.samples()};
  turn.loss = std::move(losses);
  return turn;
}

int64_t parameters_of(const Trainer& trainer) {
  int64_t count = 0;
  for (const auto& [name, parameter] : trainer.parameters()) count += parameter.numel();
  return count;
}

/// The first answer.
reports::PaceReady ready_of(const PlannedRun& plan, const SessionOptions& options,
                            const Trainer& trainer) {
  reports::Result result;
  result.identity = identity_of(plan, *options.dataset);
  describe_machine(plan.spec.device, result);
  result.seeds.base = plan.seed;
  result.protocol.deterministic = plan.spec.deterministic;
  result.protocol.loader_threads = options.loader_threads;
  result.provenance.data = options.dataset->files();
  result.provenance.init_weights_sha256 = tensors_sha256(trainer.weights());
  reports::PaceReady ready;
  ready.benchmark = plan.id;
  ready.variant = variant_label(plan.spec);
  ready.threads = plan.spec.threads;
  ready.batch = plan.spec.definition.train.batch;
  ready.parameters = parameters_of(trainer);
  ready.identity = reports::same_work(result);
  ready.about = reports::about_build(result);
  return ready;
}

}  // namespace

ExitCode pace(const RunOptions& options) {
  require_benchmark("pace", options.id);
  const std::vector<PlannedRun> plans = plan_runs(options);
  if (plans.size() != 1) {
    throw bad_input("pace", "", std::to_string(plans.size()) + " runs",
                    "one benchmark, one mode, one baseline");
  }
  const PlannedRun& plan = plans.front();
  configure_process(plan.spec);
  SessionOptions session_of = session_options(options, plan);
  session_of.spec.definition.train.steps = std::numeric_limits<int32_t>::max();
  session_of.timed = true;
  const Session session = make_session(session_of);
  answer(reports::json::tree_of(ready_of(plan, session_of, *session.trainer)));
  for (std::string line; std::getline(std::cin, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line == "quit") break;
    answer(reports::json::tree_of(
        take_turn(*session.trainer, parse_turn(line), plan.spec.device, options.slow_down_frac)));
  }
  return ExitCode::kPass;
}

}  // namespace noisemark::suite
