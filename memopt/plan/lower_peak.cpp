#include "memopt/plan/lower_peak.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "memopt/plan/cuts.h"
#include "memopt/plan/peak_timeline.h"

namespace noisemark::memopt {
namespace {

/// In quarters of the peak of keeping everything. A net of a few layers gains nothing at its peak,
/// and a little more is no reason to give up what it gains when forward ends.
constexpr int64_t kMostQuarters = 5;

/// Leaves codecs out, because their figures would have to be measured.
int64_t predicted_peak(std::shared_ptr<const StepGraph> graph, Policy policy,
                       const Overrides& overrides) {
  policy.codec = {};
  return simulate(resolve(std::move(graph), policy, overrides), {}).peak_saved_bytes;
}

}  // namespace

void cut_for_lowest_peak(StepGraph& graph, const Policy& policy) {
  const int64_t count = square_root_segments(graph);
  std::optional<int64_t> lowest;
  StepGraph best;
  for (const int64_t segments : {count, std::max<int64_t>(count / 2, 1), 2 * count}) {
    for (const CutPlace place : {CutPlace::kEqualBytes, CutPlace::kFewBytes}) {
      const auto cut = std::make_shared<StepGraph>(graph);
      cut_into_segments(*cut, segments, place);
      const int64_t peak = predicted_peak(cut, policy, {});
      if (lowest && *lowest <= peak) continue;
      lowest = peak;
      best = *cut;
    }
  }
  graph = std::move(best);
}

GuardedPlan resolve_below_none(const std::shared_ptr<const StepGraph>& graph, const Policy& policy,
                               const Overrides& overrides) {
  TreatmentPlan plan = resolve(graph, policy, overrides);
  // A backward that is differentiated itself keeps what it was given in its own graph.
  const bool twice = std::any_of(graph->slots.begin(), graph->slots.end(),
                                 [](const RecordedSlot& slot) { return slot.differentiated; });
  if (plan.recipes.empty() || twice) return {std::move(plan)};
  const int64_t most = kept_timeline(graph).peak_saved_bytes * kMostQuarters / 4;
  if (predicted_peak(graph, policy, overrides) <= most) return {std::move(plan)};
  Policy other = policy;
  other.light = {};
  if (policy.light && predicted_peak(graph, other, overrides) <= most) {
    return {resolve(graph, other, overrides)};
  }
  other.may_replay = [](const StepGraph&, const RecordedOperator&) { return false; };
  return {resolve(graph, other, overrides), true};
}

}  // namespace noisemark::memopt
