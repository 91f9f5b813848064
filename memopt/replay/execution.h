#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "memopt/record/history.h"
#include "memopt/record/step_graph.h"
#include "memopt/replay/held_values.h"
#include "memopt/replay/value_samples.h"
#include "memopt/treatment/treatment.h"

namespace noisemark::memopt {

/// The findings of a backward pass under a plan.
struct BackwardFinding {
  int64_t recipes_run = 0;
  int64_t recipes_run_again = 0;  ///< runs beyond one for each pass, for which the result was gone
                                  ///< too early
  /// Values whose slot did not get the same bits, in the order in which they were found: of a pass
  /// that verifies all that differ, of one that follows those whose ValueSample does, whose slots
  /// gave backward an error.
  std::vector<ValueId> mismatched;
};

/// Collects it. It outlives the pass, whose backward may come after the end of its step, and keeps
/// nothing of it alive. Thread-safe.
class BackwardFindings {
 public:
  void ran_recipe(bool again);
  void differed(ValueId value);
  /// A backward has begun that is not differentiated itself.
  void ask() { asked_ = true; }
  [[nodiscard]] bool asked() const { return asked_; }
  /// Returns what was found since the pass began.
  [[nodiscard]] BackwardFinding all() const;

 private:
  mutable std::mutex mutex_;
  BackwardFinding found_;
  std::atomic<bool> asked_ = false;
};

/// Compares what autograd saves in one forward pass with what was recorded, without running
/// anything and without reading a value: shape, type and memory layout of each tensor, how often
/// its memory was written, the parameter that it is, and all operators of the pass that it came
/// from, as far as autograd knows them and with what they were called (HistoryReader). It is for
/// the thread that runs the pass.
class PathMatch {
 public:
  /// The pass begins now. `graph` must outlive this.
  explicit PathMatch(const StepGraph& graph) : graph_(graph), history_(graph) {}

  /// Returns whether the tensor is the one that was recorded in this slot. Ask for every slot in
  /// order, until the answer is no.
  [[nodiscard]] bool fits(const at::Tensor& tensor, SlotId slot);
  /// Returns whether the operator that saves it now is called as the recorded one was. No
  /// tensor shows that before the operator has a result. What is rounded serves that call alone.
  [[nodiscard]] bool is_saved_by_the_same(SlotId slot) const;
  /// The memory stands for what the slot saved: to write that without autograd counts as done.
  void stands_for(const at::Tensor& memory, SlotId slot) {
    history_.stands_for(memory, graph_.slots[static_cast<size_t>(slot)].writes);
  }
  /// The forward pass is over.
  void end() { history_.end(); }

 private:
  [[nodiscard]] bool looks_the_same(const at::Tensor& tensor, const RecordedSlot& recorded) const;
  [[nodiscard]] bool was_made_the_same(const at::Tensor& tensor, const RecordedSlot& recorded);

  const StepGraph& graph_;
  HistoryReader history_;
};

}  // namespace noisemark::memopt

namespace torch::autograd {
struct SavedVariableHooks;
}

namespace noisemark::memopt {

/// One forward pass and its backward under a plan. The hooks of its slots share it; when the last
/// of them is gone, nothing of the pass is held. Safe for backward on other threads.
///
/// A pass that leaves the recorded path (fits()) keeps everything from there on. What shows
/// in no saved tensor and no autograd node is found when a value is recomputed and is not what
/// forward had (replay/value_samples.h): on a CPU backward then throws c10::Error, which names the
/// operator; on another device a DeviceDoubt has it. A kept or held tensor that was changed in
/// place is such an error too.
class PlanExecution {
 public:
  enum class Purpose {
    kFollow,    ///< drop what the plan drops
    kVerify,    ///< keep everything, and compare what the plan would give with what was kept
    kRehearse,  ///< follow the plan with the tensors of a pass that has been, which have no history
    kRound,     ///< does the same beside a pass that verifies: each codec is the first that takes a
                ///< value
  };

  /// `key` names the pass to codecs that round at random. `doubt`: of ValueSamples.
  PlanExecution(std::shared_ptr<const TreatmentPlan> plan, const EncodeKey& key, Purpose purpose,
                std::shared_ptr<DeviceDoubt> doubt = nullptr);
  ~PlanExecution();

  /// Makes the hooks of the next tensor that autograd saves.
  [[nodiscard]] std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks();

  /// The forward pass is over.
  void end_forward();

  /// Returns whether `tensor`, the first that the pass saves, is the recorded one, so that the pass
  /// may go on as the recorded one did. It is asked before the hooks of that tensor are made.
  [[nodiscard]] bool begins_with(const at::Tensor& tensor);

  /// The findings of its backward, whenever that comes. Nobody else knows them when the last hook
  /// is gone.
  [[nodiscard]] std::shared_ptr<const BackwardFindings> findings() const;
  /// Lives as long as this or anything of the pass, which a backward may still ask for.
  [[nodiscard]] std::weak_ptr<const void> held_pass() const;
  /// Returns whether something of the pass is held after a backward, or, unlike in the recorded
  /// pass, a second backward has asked for it.
  [[nodiscard]] bool is_retained() const;
  /// It left the recorded path.
  [[nodiscard]] bool departed() const;
  /// It did after its first saved tensor, so that another kind of pass begins as the recorded one.
  [[nodiscard]] bool departed_later() const;
  /// The pass was the recorded one from its first saved tensor to its last.
  [[nodiscard]] bool complete() const;
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
  /// The answers that the device has not yet given on them. The pass does not wait for them.
  [[nodiscard]] std::vector<AwaitedAnswer> awaited() const;
  /// Tensors that are held beyond their own slot: an owner walk counts them as activations.
  [[nodiscard]] std::vector<at::Tensor> held() const;

 private:
  class State;
  std::shared_ptr<State> state_;
  Purpose purpose_;
};

}  // namespace noisemark::memopt
