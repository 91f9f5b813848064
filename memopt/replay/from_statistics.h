#pragma once

#include <optional>

#include "memopt/record/step_graph.h"
#include "memopt/replay/recipe.h"

namespace noisemark::memopt {

/// Makes the first result of an operator NAME again by the operator NAME_from_statistics, with the
/// other results of NAME that autograd saved (the statistics of a norm) in place of what they were
/// computed from. Whoever defines NAME may define that operator too: it takes what NAME takes, then
/// NAME's results from the second on, which are tensors, and gives the first again, bit for bit
/// (that is tried before it is relied on). It is looked for when the recipe is made. Empty where
/// there is none of that schema for the value's type and the model's device, and where one of the
/// results was not saved by NAME itself.
[[nodiscard]] std::optional<Recipe> from_statistics_recipe(const StepGraph& graph, ValueId id);

}  // namespace noisemark::memopt
