#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

/// How values are made again from others.
struct Recipe {
  std::string name;              ///< "aten::silu"
  OperatorId replaces = kNone;   ///< the recorded operator whose results it gives
  bool is_shortcut = false;      ///< gives them in another way than by calling that operator
  int64_t cost_ns = 0;           ///< of one run, as it was measured; 0: not measured
  std::vector<ValueId> inputs;   ///< what run() takes, in this order, each once
  std::vector<ValueId> results;  ///< what run() gives; kNone: not a value of the step
  /// Runs without autograd and without autocast. Throws what the operator throws.
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)> run;
};

/// Calls an operator with the arguments and for the results that `call` has.
[[nodiscard]] Recipe recipe_of_call(const RecordedOperator& call);

/// Calls the recorded operator again; dropout takes the mask that it gave. It must be repeatable.
[[nodiscard]] Recipe replay_recipe(const StepGraph& graph, OperatorId id);

/// A value that nobody saved, as a part of one that was.
struct Slice {
  ValueId value = kNone;  ///< what it gives
  /// From the whole to a dense tensor of its own memory, with the dimensions in the whole's order.
  std::function<at::Tensor(const at::Tensor& whole)> take;
};

/// How input `input` of the operator that made `whole` can be cut out of `whole`: a part of a
/// concatenation, the source of a nearest-neighbour upsampling by an integer factor or of a padding
/// with a constant. Empty for anything else.
[[nodiscard]] std::optional<Slice> slice_of_input(const StepGraph& graph, ValueId whole,
                                                  ValueId input);

}  // namespace noisemark::memopt
