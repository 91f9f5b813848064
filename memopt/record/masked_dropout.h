#pragma once

#include <optional>

#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

/// A call of aten::native_dropout(input, p, train) -> (result, mask). It draws, so calling it again
/// gives something else; but the result is the input times the mask times 1 / (1 - p).
struct MaskedDropout {
  ValueId input = kNone;
  ValueId result = kNone;
  ValueId mask = kNone;
  double keep = 1;  ///< 1 - p; 1 where nothing was dropped
};

/// Empty for another operator, one that drops everything, and one whose result or mask is not both
/// known: autograd saves the mask where a gradient flows.
[[nodiscard]] std::optional<MaskedDropout> masked_dropout_of(const StepGraph& graph, OperatorId id);

/// Makes such calls repeatable. After the slots are known.
void mark_masked_dropouts(StepGraph& graph);

}  // namespace noisemark::memopt
