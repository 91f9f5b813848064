#pragma once

#include <optional>

#include "memopt/record/step_graph.h"
#include "memopt/replay/recipe.h"

namespace noisemark::memopt {

/// Makes `id` in one pass over the input of a group norm, with the norm's saved statistics instead
/// of new sums over the input, and without the values in between. Takes float32 on a CPU or GPU,
/// dense in [N, C, ...] or channels-last order, of a group norm's result, of SiLU or ReLU of that,
/// or of either times a tensor of the same shape (dropout). Empty for any other value, and where no
/// arithmetic is known that gives ATen's bits.
[[nodiscard]] std::optional<Recipe> norm_chain_recipe(const StepGraph& graph, ValueId id);

}  // namespace noisemark::memopt
