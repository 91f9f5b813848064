#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "memopt/plan/treatment.h"
#include "memopt/replay/backward_findings.h"
#include "memopt/replay/device_doubt.h"
#include "memopt/replay/held_values.h"

namespace torch::autograd {
struct SavedVariableHooks;
}

namespace noisemark::memopt {

/// One forward pass and its backward under a plan. Shared by the hooks of its slots; when the last
/// of them is gone, nothing of the pass is held. Safe for backward on other threads.
///
/// A pass that leaves the recorded path (replay/fits.h) keeps everything from there on. What shows
/// in no saved tensor and no autograd node is found when a value is made again and is not what
/// forward had (replay/value_samples.h): on a CPU backward then throws c10::Error, which names the
/// operator; on another device a DeviceDoubt has it. A kept or held tensor that was changed in
/// place is such an error too.
class PlanExecution {
 public:
  enum class Purpose {
    kFollow,    ///< drop what the plan drops
    kVerify,    ///< keep everything, and compare what the plan would give with what was kept
    kRehearse,  ///< follow the plan with the tensors of a pass that has been, which have no history
  };

  /// `key` names the pass to codecs that round at random. `doubt`: of ValueSamples.
  PlanExecution(std::shared_ptr<const TreatmentPlan> plan, const EncodeKey& key, Purpose purpose,
                std::shared_ptr<DeviceDoubt> doubt = nullptr);
  ~PlanExecution();

  /// For the next tensor that autograd saves.
  [[nodiscard]] std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks();

  /// The forward pass is over.
  void end_forward();

  /// Of its backward, whenever that comes. Nobody else knows them when the last hook is gone.
  [[nodiscard]] std::shared_ptr<const BackwardFindings> findings() const;
  /// It left the recorded path.
  [[nodiscard]] bool departed() const;
  /// kVerify: values of slots that backward did not ask for, of which nothing is known.
  [[nodiscard]] std::vector<ValueId> not_compared() const;
  /// kVerify: the pass tells something of the plan.
  [[nodiscard]] bool compared_any() const;
  /// kVerify: backward did not ask for all that it had asked for when the step was recorded.
  [[nodiscard]] bool cut_short() const;
  /// kVerify: what the shortcuts took on a CPU, by the value that each gave.
  [[nodiscard]] std::map<ValueId, int64_t> shortcut_ns() const;
  /// Values that a codec did not take, once for each codec; in kVerify also those of the plan's
  /// trials.
  [[nodiscard]] std::vector<Refusal> refused() const;
  /// What the device has not yet said that would be among them. The pass does not wait for it.
  [[nodiscard]] std::vector<AwaitedVerdict> awaited() const;
  /// Tensors that are held beyond their own slot: an owner walk counts them as activations.
  [[nodiscard]] std::vector<at::Tensor> held() const;

 private:
  class State;
  std::shared_ptr<State> state_;
  Purpose purpose_;
};

}  // namespace noisemark::memopt
