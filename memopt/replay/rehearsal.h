#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/codecs/codec.h"
#include "memopt/replay/held_values.h"
#include "memopt/replay/value_samples.h"
#include "memopt/treatment/treatment.h"

namespace torch::autograd {
struct SavedVariableHooks;
}

namespace noisemark::memopt {

/// Returns what an error says, without a trace of calls.
[[nodiscard]] std::string words_of(const std::exception& error);

/// A backward pass gave another gradient when it was run again, or threw. What it reads has changed
/// with it, so the program must not take the gradient that it is about to get.
class BackwardNotRepeatable : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A forward pass that keeps everything, and can give its backward what a plan would have given:
/// encoded and decoded, or recomputed from what the plan holds. So one pass can try many plans.
/// Besides what the pass keeps, a plan that is rehearsed holds what it makes until the next one.
class Rehearsal {
 public:
  /// `key` names the pass to codecs that round at random. `doubt`: of each plan's PlanExecution.
  Rehearsal(std::shared_ptr<const StepGraph> graph, const EncodeKey& key,
            std::shared_ptr<DeviceDoubt> doubt = nullptr);
  ~Rehearsal();

  /// Makes the hooks of the next tensor that autograd saves.
  [[nodiscard]] std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks();

  /// Slots give from now on what they would under `plan`; null: what was saved.
  void rehearse(const std::shared_ptr<const TreatmentPlan>& plan);
  /// The tensors that codecs of the last plan did not take.
  [[nodiscard]] std::vector<Refusal> refused() const;
  /// Returns whether any slot has been asked since the last call of rehearse().
  [[nodiscard]] bool asked() const;
  /// Slots that were asked since then count as measured.
  void note_measured();
  /// The slots that no backward asked whose gradient was measured.
  [[nodiscard]] std::vector<SlotId> unmeasured() const;
  /// These are what PlanExecution::begins_with() and departed() are.
  [[nodiscard]] bool begins_with(const at::Tensor& tensor);
  [[nodiscard]] bool departed() const;
  /// The pass was the recorded one from its first saved tensor to its last.
  [[nodiscard]] bool complete() const;
  /// The forward pass is over. Call it on its thread, whose operators were watched.
  void end_forward();
  /// Nothing is rehearsed any more; what backward does not need otherwise may go.
  void end();

 private:
  class State;
  class Hooks;
  std::shared_ptr<State> state_;
};

/// Measures how far plans would move the gradient of one step: its backward pass is run once with
/// everything exact and once under each plan, at the same weights, batch and forward pass. What
/// such a pass does to `.grad` itself, to what it saved, to tensors of the model and to the default
/// generators is undone.
class GradientProbe {
 public:
  /// Runs the exact pass. Neither of the first two arguments is copied. `model`: all its tensors.
  GradientProbe(Rehearsal& rehearsal, const BackwardAgain& again,
                std::vector<at::Tensor> parameters, std::vector<at::Tensor> model);

  /// Returns false where no plan can be measured: the backward is of another forward pass,
  /// the forward pass was not the recorded one, or the gradient is zero or not finite.
  [[nodiscard]] bool usable() const { return usable_; }
  /// The program's own backward threw.
  [[nodiscard]] bool failed() const { return failed_; }
  /// ‖g' - g‖ / ‖g‖, g the gradient of all parameters as one vector. Infinite where g' is not
  /// finite. It is null where nothing is rounded, so only what differs each time is an error. Where
  /// the probe is not usable, `plan` is null. Throws BackwardNotRepeatable where backward throws.
  [[nodiscard]] double error_of(const std::shared_ptr<const TreatmentPlan>& plan);
  /// Returns the error of another exact pass, as error_of() of no plan does. On a CPU, which adds
  /// in a fixed order, it is the largest of all parameters, each beside its own gradient: a hook
  /// may change one that is small now and large later.
  [[nodiscard]] double error_when_repeated();
  /// The tensors that codecs of the last plan did not take: they were exact.
  [[nodiscard]] const std::vector<Refusal>& refused() const { return refused_; }
  /// Backward passes so far.
  [[nodiscard]] int passes() const { return passes_; }

 private:
  [[nodiscard]] std::vector<at::Tensor> run();
  [[nodiscard]] std::vector<at::Tensor> run_again();
  [[nodiscard]] std::vector<double> squared_differences();

  Rehearsal& rehearsal_;
  const BackwardAgain& again_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> model_;  ///< tensors that the exact pass wrote, as they are after it
  std::vector<at::Tensor> exact_;
  double exact_squared_ = 0;
  std::vector<Refusal> refused_;
  bool usable_ = false;
  bool failed_ = false;
  int passes_ = 0;
};

}  // namespace noisemark::memopt
