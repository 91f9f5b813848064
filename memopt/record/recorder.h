#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "memopt/accounting/allocation_source.h"
#include "memopt/autograd/model_view.h"
#include "memopt/autograd/saved_original.h"
#include "memopt/record/operator_times.h"
#include "memopt/record/step_graph.h"

namespace torch::autograd {
struct SavedVariableHooks;
}

namespace noisemark::memopt {

/// Watches when the last tensor of a storage goes: the variables of a forward function hold tensors
/// longer than the operators that read them. What hooks keep for autograd are other tensors of the
/// same memory, and are not seen here.
class Lifetimes {
 public:
  void follow(StorageId storage, const at::Tensor& tensor);
  /// The storages whose last tensor has gone since it was last asked.
  [[nodiscard]] std::vector<StorageId> take_gone();

 private:
  struct Followed {
    StorageId storage;
    WeakTensor tensor;
  };
  std::vector<Followed> followed_;
  std::unordered_map<StorageId, int> tensors_of_;
};

/// Records one forward pass and the saved tensors of its backward. While it is open, LibTorch
/// reports every operator of the thread that opened it, so that thread runs the forward pass and
/// offers all tensors that autograd saves to make_hooks(). Nothing is changed: the hooks keep the
/// tensors, as autograd would. One at a time per thread.
class StepRecorder {
 public:
  /// A tensor that is neither the model's nor made by an operator of the pass is foreign, as the
  /// batch is. `memory`, where it is given, is read whenever a tensor is saved or asked for.
  /// `queue`: how operators are timed.
  explicit StepRecorder(const ModelView& model, AllocationSource* memory = nullptr,
                        OperatorTimes::Queue queue = OperatorTimes::Queue::kAsItComes);
  ~StepRecorder();
  StepRecorder(const StepRecorder&) = delete;
  StepRecorder& operator=(const StepRecorder&) = delete;

  /// Hooks for the next slot. They may outlive the recorder; unpacking may happen on any thread.
  [[nodiscard]] std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks();

  /// The forward pass is over: stops following operators. Idempotent; the destructor does it too.
  void end_forward();

  /// Lives as long as this or anything of the pass, which a backward may still ask for.
  [[nodiscard]] std::weak_ptr<const void> held_pass() const;

  /// The graph, after backward (or after an exception: then with slots that were never unpacked).
  /// Call once. Rethrows what went wrong while operators were followed.
  [[nodiscard]] StepGraph take();

 private:
  class State;
  class Hooks;
  std::shared_ptr<State> state_;
};

}  // namespace noisemark::memopt
