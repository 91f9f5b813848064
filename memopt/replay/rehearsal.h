#pragma once

#include <cstdint>
#include <memory>

#include "memopt/codecs/codec.h"
#include "memopt/plan/treatment.h"
#include "memopt/replay/device_doubt.h"

namespace torch::autograd {
struct SavedVariableHooks;
}

namespace noisemark::memopt {

/// A forward pass that keeps everything, and can give its backward what a plan would have given:
/// encoded and decoded, or made again from what the plan holds. So one pass can try many plans.
/// Besides what the pass keeps, a plan that is rehearsed holds what it makes until the next one.
class Rehearsal {
 public:
  /// `key` names the pass to codecs that round at random. `doubt`: of each plan's PlanExecution.
  Rehearsal(std::shared_ptr<const StepGraph> graph, const EncodeKey& key,
            std::shared_ptr<DeviceDoubt> doubt = nullptr);
  ~Rehearsal();

  /// For the next tensor that autograd saves.
  [[nodiscard]] std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks();

  /// Slots give from now on what they would under `plan`; null: what was saved.
  void rehearse(const std::shared_ptr<const TreatmentPlan>& plan);
  /// How often slots have been asked since the last call of rehearse().
  [[nodiscard]] int64_t asked() const;
  /// The pass was the recorded one from its first saved tensor to its last.
  [[nodiscard]] bool complete() const;
  /// Nothing is rehearsed any more; what backward does not need otherwise may go.
  void end();

 private:
  class State;
  class Hooks;
  std::shared_ptr<State> state_;
};

}  // namespace noisemark::memopt
