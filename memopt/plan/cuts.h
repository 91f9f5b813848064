#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

/// The parts of a step, by operator, from 0 on: between each two operators that `runs_apart` names,
/// such as the attention of one layer and of the next, the step is cut where the fewest bytes
/// cross. In a transformer that is between two layers, or two halves of one, whatever its
/// parameters are called.
[[nodiscard]] std::vector<int32_t> parts_between(
    const StepGraph& graph,
    const std::function<bool(const StepGraph&, const RecordedOperator&)>& runs_apart);

}  // namespace noisemark::memopt
