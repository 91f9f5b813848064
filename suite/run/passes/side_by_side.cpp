#include "suite/run/passes/side_by_side.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "suite/probes/phase_timer.h"
#include "suite/random/counter_rng.h"
#include "suite/run/passes/owners.h"
#include "suite/run/passes/session.h"

namespace noisemark::suite {
namespace {

constexpr int64_t kRounds = 10;
/// A plan in which something was not exact is changed and compared again, so often at most.
constexpr int64_t kMoreFirstSteps = 5;
constexpr std::array<int64_t, 3> kCompared{1, 2, 10};
/// Large enough that no parameter stays at the 0 or 1 it may have been initialised with, small
/// enough that training goes on as usual.
constexpr float kPerturbation = 0.02F;

/// Collects the digests of a step while it is armed. Gradients exist between the last backward and
/// the end of the optimizer's phase, weights are final after it.
class EvidenceObserver final : public StepObserver {
 public:
  explicit EvidenceObserver(const Trainer& trainer) : trainer_(trainer) {}

  void arm(Evidence& evidence, bool first) {
    evidence_ = &evidence;
    evidence_->digests.emplace_back();
    keep_gradients_ = first;
  }
  void finish(double loss) {
    add("loss", at::scalar_tensor(loss, at::kDouble));
    evidence_ = nullptr;
  }

  void on_step_begin(int64_t /*step*/) override {}
  void on_phase_begin(Phase phase) override {
    if (evidence_ == nullptr || phase != Phase::kOptimizer) return;
    for (const auto& [name, parameter] : trainer_.parameters()) {
      if (!parameter.grad().defined()) continue;
      add("gradient." + name, parameter.grad());
      if (keep_gradients_) {
        evidence_->gradients.emplace_back(name, parameter.grad().detach().cpu().clone());
      }
    }
  }
  void on_phase_end(Phase /*phase*/) override {}
  void on_step_end(int64_t /*step*/) override {
    if (evidence_ == nullptr) return;
    for (const auto& [name, weight] : trainer_.weights()) add("weight." + name, weight);
  }

 private:
  void add(const std::string& name, const at::Tensor& tensor) {
    evidence_->digests.back().emplace_back(name, tensors_sha256({{name, tensor}}));
  }

  const Trainer& trainer_;
  Evidence* evidence_ = nullptr;
  bool keep_gradients_ = false;
};

void perturb(const NamedTensors& parameters, uint64_t seed) {
  const at::NoGradGuard no_grad;
  uint64_t index = 0;
  for (const auto& [name, parameter] : parameters) {
    const at::Tensor noise = at::empty(parameter.sizes(), at::kFloat);
    CounterRng(seed, Stream::kPerturb, 0, index++)
        .fill_normal(std::span(noise.data_ptr<float>(), static_cast<size_t>(noise.numel())));
    parameter.add_(noise.mul_(kPerturbation).to(parameter.options()));
  }
}

/// Says why a step of so many forward passes, between two reports, did not follow the plan; empty
/// where all did.
std::string why_not_followed(const memopt::PlannedModeReport& before,
                             const memopt::PlannedModeReport& after, int64_t passes) {
  if (!after.missing_reason.empty()) return after.missing_reason;
  const int64_t departed = after.counters.departures - before.counters.departures;
  if (departed > 0) {
    return fmt::format("{} of {} forward passes took another path than was recorded", departed,
                       passes);
  }
  const bool all = after.followed_passes - before.followed_passes >= passes;
  return all ? "" : "the plan was still being compared with the true values";
}

/// One of the trainings.
class Contestant {
 public:
  explicit Contestant(const SessionOptions& options)
      : session_(make_session(options)),
        observer_(*session_.trainer),
        device_(options.spec.device),
        passes_(options.spec.forwards_of_step()) {
    perturb(session_.trainer->parameters(), options.spec.definition.seed);
  }

  void warm_up(int64_t steps, const PassWatch& watch) {
    while (trainer().next_step() < steps) {
      watch.before_step("certificate, first steps", trainer().next_step(), steps);
      (void)trainer().step();
    }
  }

  /// Trains until the next step follows a plan, or it has become plain that none will; returns how
  /// many steps that were.
  int64_t warm_up_to_plan(int64_t least, const PassWatch& watch) {
    warm_up(least, watch);
    while (!watch.on_all(report().verified) && trainer().next_step() < least + kMoreFirstSteps) {
      warm_up(trainer().next_step() + 1, watch);
    }
    return trainer().next_step();
  }

  void take_turn(int64_t round) {
    const bool compared = std::find(kCompared.begin(), kCompared.end(), round) != kCompared.end();
    const memopt::PlannedModeReport before = report();
    if (compared) observer_.arm(evidence_, round == 1);
    PhaseTimer timer(device_);
    const StepRecord record = trainer().step({&observer_, &timer});
    if (compared) {
      observer_.finish(record.loss);
      evidence_.not_followed.push_back(why_not_followed(before, report(), passes_));
    }
    evidence_.step_s.push_back(without_observation(timer.samples()));
  }

  [[nodiscard]] Trainer& trainer() { return *session_.trainer; }
  [[nodiscard]] memopt::PlannedModeReport report() const {
    return memopt::report_of(*session_.mode);
  }
  [[nodiscard]] Evidence take() { return std::move(evidence_); }

 private:
  /// Digests are made between phases, so the phases' sum does not contain them.
  static double without_observation(const reports::Samples& samples) {
    double sum_s = 0;
    for (const auto& [name, seconds] : reports::kSamplePhases) sum_s += (samples.*seconds).back();
    return sum_s;
  }

  Session session_;
  EvidenceObserver observer_;
  c10::Device device_;
  int64_t passes_;  ///< forward passes of a step
  Evidence evidence_;
};

bool bounds_all_bytes(const ModeSpec& mode) {
  return mode.budget && mode.budget->target == memopt::BudgetTarget::kPeak;
}

/// Returns the options without the strictness of a budget of all bytes: three trainings in one
/// process hold more.
SessionOptions with_mode_not_strict(SessionOptions options) {
  ModeSpec& mode = options.spec.mode;
  if (!bounds_all_bytes(mode)) return options;
  mode.budget->strict = false;
  mode.name = memopt::spell_budget(*mode.budget);
  return options;
}

SessionOptions with_mode_none(const SessionOptions& options) {
  SessionOptions none = options;
  none.spec.mode = {};
  return none;
}

/// Optimizer steps until the mode is steady.
int64_t steps_until_steady(const SessionOptions& options) {
  const int64_t forwards = options.spec.mode.forwards_until_steady;
  const int64_t each = options.spec.watched_of_step();
  return (forwards + each - 1) / each;
}

}  // namespace

SideBySide train_side_by_side(const SessionOptions& options, const PassWatch& watch) {
  const DeterministicScope deterministic(options.spec.device);
  const int64_t least = steps_until_steady(options);
  SessionOptions own = with_mode_not_strict(options);
  own.spec.definition.train.steps = least + kMoreFirstSteps + kRounds;
  Contestant mode(own);
  SideBySide result;
  name_owners_when_full(mode.trainer(), [&] {
    const int64_t first_steps = mode.warm_up_to_plan(least, watch);
    Contestant none(with_mode_none(own));
    Contestant again(with_mode_none(own));
    none.warm_up(first_steps, watch);
    again.warm_up(first_steps, watch);
    const std::array<Contestant*, 3> all{&mode, &none, &again};
    for (int64_t round = 1; round <= kRounds; ++round) {
      watch.before_step("certificate", round - 1, kRounds);
      for (size_t turn = 0; turn < all.size(); ++turn) {
        all[(turn + static_cast<size_t>(round)) % all.size()]->take_turn(round);
      }
    }
    result.none = none.take();
    result.none_again = again.take();
  });
  result.compared.assign(kCompared.begin(), kCompared.end());
  result.mode = mode.take();
  result.mode_report = mode.report();
  if (bounds_all_bytes(own.spec.mode)) result.mode_report.budget.reset();
  return result;
}

}  // namespace noisemark::suite
