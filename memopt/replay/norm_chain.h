#pragma once

#include <optional>

#include "memopt/record/step_graph.h"
#include "memopt/replay/recipe.h"

namespace noisemark::memopt {

/// Makes `id` in one pass over the input of a group norm, with the norm's saved statistics instead
/// of new sums over the input, and without the values in between. Takes float32 on a CPU or GPU,
/// dense in [N, C, ...] or channels-last order, of a group norm's result, of SiLU or ReLU of that,
/// or of either times a tensor of the same shape (dropout); and each of these rounded to bfloat16
/// or float16, as autocast hands it to a convolution. Empty for any other value, and where no
/// arithmetic is known that gives ATen's bits.
///
/// On a GPU that is all that autocast and channels-last come to: there autocast has group norm in
/// float32, and at::group_norm copies what is not in [N, C, ...] order before it calls
/// aten::native_group_norm, which takes nothing else.
[[nodiscard]] std::optional<Recipe> norm_chain_recipe(const StepGraph& graph, ValueId id);

}  // namespace noisemark::memopt
