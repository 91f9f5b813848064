#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "memopt/plan/resolve.h"
#include "memopt/record/step_graph.h"

/// The places where a step is cut, and other choices that a policy leaves open. They are made by
/// the bytes that the recorded step is predicted to hold at its peak. Values that are recomputed
/// are counted there as they are, whatever codecs could do to them.
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

/// Returns the square root of the number of saved storages (Chen et al. 2016), at least 1.
[[nodiscard]] int64_t square_root_segments(const StepGraph& graph);

/// Replaces the segments, which follow the names of the model's blocks, by `count` in the order of
/// the operators.
void cut_into_segments(StepGraph& graph, int64_t count, CutPlace place);

/// Cuts the step into segments for a policy that has no use for blocks: of some numbers around the
/// square root of that of saved storages, and of both kinds of places (CutPlace), those whose plan
/// has the lowest peak.
void cut_for_lowest_peak(StepGraph& graph, const Policy& policy);

/// Holds a plan, and whether the policy's own was not it.
struct GuardedPlan {
  TreatmentPlan plan;
  bool makes_nothing_again = false;  ///< though the policy would
};

/// Returns the policy's plan. Where making values again is predicted to need more at the peak than
/// keeping them (by over 16 KiB, or over a quarter of a peak below 64 KiB), as where all of
/// backward's values are made from the same few, the policy is followed on one level
/// (Policy::light), and else recomputes nothing; codecs stay. It is not asked where backward is
/// differentiated itself.
[[nodiscard]] GuardedPlan resolve_below_none(const std::shared_ptr<const StepGraph>& graph,
                                             const Policy& policy, const Overrides& overrides);

}  // namespace noisemark::memopt
