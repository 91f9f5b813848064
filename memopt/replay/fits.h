#pragma once

#include <ATen/core/Tensor.h>

#include "memopt/record/history.h"
#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

/// Compares what autograd saves in one forward pass with what was recorded, without running
/// anything and without reading a value: shape, type and memory layout of each tensor, how often
/// its memory was written, the parameter that it is, and all operators of the pass that it came
/// from, as far as autograd knows them and with what they were called (HistoryReader). For the
/// thread that runs the pass.
class PathMatch {
 public:
  /// The pass begins now. `graph` must outlive this.
  explicit PathMatch(const StepGraph& graph) : graph_(graph), history_(graph) {}

  /// Whether the tensor is the one that was recorded in this slot. To be asked for every slot in
  /// order, until the answer is no.
  [[nodiscard]] bool fits(const at::Tensor& tensor, SlotId slot);
  /// The forward pass is over.
  void end() { history_.end(); }

 private:
  [[nodiscard]] bool looks_the_same(const at::Tensor& tensor, const RecordedSlot& recorded) const;
  [[nodiscard]] bool was_made_the_same(const at::Tensor& tensor, const RecordedSlot& recorded);

  const StepGraph& graph_;
  HistoryReader history_;
};

}  // namespace noisemark::memopt
