#include "suite/run/run.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "reports/base/fields.h"
#include "reports/base/json_writer.h"
#include "reports/base/streams.h"
#include "reports/compare/sides.h"
#include "reports/result/result_fields.h"
#include "suite/environment/environment.h"
#include "suite/io/safetensors.h"
#include "suite/probes/phase_timer.h"
#include "suite/run/passes/session.h"
#include "suite/run/spec/plan.h"

namespace noisemark::suite {

/// The first line that `pace` prints.
struct PaceReady {
  bool ready = true;
  std::string benchmark;
  std::string variant;
  int64_t threads = 0;
  int64_t batch = 0;
  int64_t parameters = 0;
  reports::Strings identity;
  reports::Strings about;
};

}  // namespace noisemark::suite

namespace noisemark::reports::json {

constexpr Document kPaceDocument{"the first line of `noisemark pace`", "",
                                 "The session, once it is ready."};
constexpr Document kTurnDocument{"every further line of `noisemark pace`", "",
                                 "The samples of the turn that was asked for."};

template <>
struct Fields<suite::PaceReady> {
  using T = suite::PaceReady;
  static constexpr About kAbout{"PaceReady", ""};
  static constexpr std::tuple kAll{
      field("ready", &T::ready, "always true"),
      field("benchmark", &T::benchmark, "\"gmm16-ho@cpu\""),
      field("variant", &T::variant, "\"none-plain-fp32\""),
      field("threads", &T::threads, "threads of LibTorch"),
      field("batch", &T::batch, "images of a step"),
      field("parameters", &T::parameters, "trainable parameters"),
      field("identity", &T::identity, "what another build must agree in to do the same work"),
      field("about", &T::about, "what may differ: commit, digest of the program, software")};
};

}  // namespace noisemark::reports::json

namespace noisemark::suite {
namespace {

using Json = nlohmann::ordered_json;

void answer(const Json& json) {
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

constexpr std::string_view kLoss = "loss";

/// Returns whether an answer has the list of samples as PhaseTimer fills it.
bool is_timed(std::string_view key) {
  const auto is_of = [&](std::vector<double> reports::Samples::*values) {
    return std::any_of(std::begin(reports::json::kSampleLists),
                       std::end(reports::json::kSampleLists),
                       [&](const auto& list) { return list.key == key && list.values == values; });
  };
  return is_of(&reports::Samples::step_s) ||
         std::any_of(reports::kSamplePhases.begin(), reports::kSamplePhases.end(),
                     [&](const auto& phase) { return is_of(phase.seconds); });
}

Json take_turn(Trainer& trainer, int64_t steps, at::Device device,
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
  const reports::Samples& samples = timer.samples();
  Json answer{{std::string(kLoss), losses}};
  for (const auto& [key, values] : reports::json::kSampleLists) {
    if (is_timed(key)) answer[std::string(key)] = samples.*values;
  }
  return answer;
}

int64_t parameters_of(const Trainer& trainer) {
  int64_t count = 0;
  for (const auto& [name, parameter] : trainer.parameters()) count += parameter.numel();
  return count;
}

/// The first answer.
PaceReady ready(const PlannedRun& plan, const SessionOptions& options, const Trainer& trainer) {
  reports::Result result;
  result.identity = identity_of(plan, *options.dataset);
  describe_machine(plan.spec.device, result);
  result.seeds.base = plan.seed;
  result.protocol.deterministic = plan.spec.deterministic;
  result.protocol.loader_threads = options.loader_threads;
  result.provenance.data = options.dataset->files();
  result.provenance.init_weights_sha256 = tensors_sha256(trainer.weights());
  return {.benchmark = plan.id,
          .variant = variant_label(plan.spec),
          .threads = plan.spec.threads,
          .batch = plan.spec.definition.train.batch,
          .parameters = parameters_of(trainer),
          .identity = reports::same_work(result),
          .about = reports::about_build(result)};
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
  answer(reports::json::tree_of(ready(plan, session_of, *session.trainer)));
  for (std::string line; std::getline(std::cin, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line == "quit") break;
    answer(take_turn(*session.trainer, parse_turn(line), plan.spec.device, options.slow_down_frac));
  }
  return ExitCode::kPass;
}

std::string pace_fields_markdown() {
  namespace json = reports::json;
  json::Shape turn = json::shape_of<reports::Samples>();
  std::erase_if(turn.members, [](const json::Shape::Member& member) {
    return member.key != kLoss && !is_timed(member.key);
  });
  for (json::Shape::Member& member : turn.members) {
    member.rule = {};
    if (member.key == kLoss) member.text = "training losses, each the mean over micro-batches";
  }
  return json::fields_markdown(json::kPaceDocument, json::shape_of<PaceReady>()) + "\n" +
         json::fields_markdown(json::kTurnDocument, turn);
}

}  // namespace noisemark::suite
