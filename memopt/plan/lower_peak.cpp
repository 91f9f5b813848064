#include "memopt/plan/lower_peak.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "memopt/plan/cuts.h"
#include "memopt/plan/peak_timeline.h"

namespace noisemark::memopt {
namespace {

/// Above the peak of keeping everything, and at most a quarter of it. A net of a few layers gains
/// nothing at its peak, and a little more is no reason to give up what it gains when forward ends.
constexpr int64_t kMostAbove = 16 * 1024;

Policy without_codecs(Policy policy) {
  policy.codec = {};
  return policy;
}

int64_t predicted_peak(const TreatmentPlan& plan) {
  return simulate(plan, {}).peak_saved_bytes;
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
      const int64_t peak = predicted_peak(resolve(cut, without_codecs(policy)));
      if (lowest && *lowest <= peak) continue;
      lowest = peak;
      best = *cut;
    }
  }
  graph = std::move(best);
}

GuardedPlan resolve_below_none(const std::shared_ptr<const StepGraph>& graph, const Policy& policy,
                               const Overrides& overrides) {
  RecipeBook recipes(graph, overrides.shortcut_ns);
  // A backward that is differentiated itself keeps what it was given in its own graph.
  const bool twice = std::any_of(graph->slots.begin(), graph->slots.end(),
                                 [](const RecordedSlot& slot) { return slot.differentiated; });
  if (twice) return {resolve(graph, policy, overrides, recipes)};
  const int64_t kept = kept_timeline(graph).peak_saved_bytes;
  const int64_t most = kept + std::min(kept / 4, kMostAbove);
  Policy one_level = policy;
  one_level.light = {};
  for (const Policy& tried : {policy, one_level}) {
    TreatmentPlan plan = resolve(graph, without_codecs(tried), overrides, recipes);
    const bool fits = plan.recipes.empty() || predicted_peak(plan) <= most;
    if (fits && !tried.codec) return {std::move(plan)};
    if (fits) return {resolve(graph, tried, overrides, recipes)};
    if (!policy.light) break;
  }
  one_level.may_replay = [](const StepGraph&, const RecordedOperator&) { return false; };
  return {resolve(graph, one_level, overrides, recipes), true};
}

}  // namespace noisemark::memopt
