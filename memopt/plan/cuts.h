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

/// The places at which a step may be cut into segments.
enum class CutPlace : uint8_t {
  kEqualBytes,  ///< all segments save the same bytes
  kFewBytes,    ///< near there, where the fewest bytes cross, as between two cells of an LSTM
};

/// As many segments as the square root of the number of saved storages (Chen et al. 2016), at
/// least 1.
[[nodiscard]] int64_t square_root_segments(const StepGraph& graph);

/// Replaces the segments, which follow the names of the model's blocks, by `count` in the order of
/// the operators.
void cut_into_segments(StepGraph& graph, int64_t count, CutPlace place);

}  // namespace noisemark::memopt
