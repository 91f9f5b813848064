#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

/// A way to recompute values from others.
struct Recipe {
  std::string name;              ///< "aten::silu"
  OperatorId replaces = kNone;   ///< the recorded operator whose results it gives
  bool is_shortcut = false;      ///< gives them in another way than by calling that operator
  int64_t cost_ns = 0;           ///< measured time of one run, or of what it replaces; 0 where
                                 ///< nobody measured
  std::vector<ValueId> inputs;   ///< arguments of run(), in this order, each once
  std::vector<ValueId> results;  ///< results of run(); kNone: not a value of the step
  /// Runs without autograd and without autocast. Throws what the operator throws.
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)> run;
};

/// Calls an operator with the arguments and for the results that `call` has.
[[nodiscard]] Recipe recipe_of_call(const RecordedOperator& call);

/// Calls the recorded operator again; dropout takes the mask that it gave, and batch norm moves no
/// running statistics. It must be repeatable.
[[nodiscard]] Recipe replay_recipe(const StepGraph& graph, OperatorId id);

/// A value that nobody saved, as a part of one that was.
struct Slice {
  ValueId value = kNone;  ///< the value it gives
  /// Makes of the whole a dense tensor of its own memory, with the dimensions in the whole's order.
  std::function<at::Tensor(const at::Tensor& whole)> take;
};

/// Tells where input `input` of the operator that made `whole` lies in `whole`: it is a part of a
/// concatenation, the source of a nearest-neighbour upsampling by an integer factor or of a padding
/// with a constant. It is empty for anything else.
[[nodiscard]] std::optional<Slice> slice_of_input(const StepGraph& graph, ValueId whole,
                                                  ValueId input);

/// Makes the first result of an operator NAME again by the operator NAME_from_statistics, with the
/// other results of NAME that autograd saved (the statistics of a norm) in place of what they were
/// computed from. Whoever defines NAME may define that operator too: it takes what NAME takes, then
/// NAME's results from the second on, which are tensors, and gives the first again, bit for bit
/// (that is tried before it is relied on). It is looked for when the recipe is made. It is empty
/// where there is none of that schema for the value's type and the model's device, and where one of
/// the results was not saved by NAME itself.
[[nodiscard]] std::optional<Recipe> from_statistics_recipe(const StepGraph& graph, ValueId id);

/// The recipes of one graph, each made when it is first asked for: many plans for the same graph
/// share them. It is not thread-safe.
class RecipeBook {
 public:
  /// `shortcut_ns`: what shortcuts were found to take, by the value that each gives.
  explicit RecipeBook(std::shared_ptr<const StepGraph> graph,
                      std::map<ValueId, int64_t> shortcut_ns = {});

  /// Calls the operator again, which must be repeatable.
  [[nodiscard]] const std::shared_ptr<const Recipe>& replay(OperatorId id);
  /// Makes the value in another way; null where there is none.
  [[nodiscard]] const std::shared_ptr<const Recipe>& shortcut(ValueId id);

 private:
  std::shared_ptr<const StepGraph> graph_;
  std::map<ValueId, int64_t> shortcut_ns_;
  std::vector<std::shared_ptr<const Recipe>> replays_;
  std::vector<std::shared_ptr<const Recipe>> shortcuts_;
  std::vector<bool> looked_up_;  ///< shortcuts_ knows the value
};

}  // namespace noisemark::memopt
