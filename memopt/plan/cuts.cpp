#include "memopt/plan/cuts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "memopt/plan/peak_timeline.h"

namespace noisemark::memopt {
namespace {

/// The bytes that operators before each one made and that it or later ones read.
std::vector<int64_t> bytes_across(const StepGraph& graph) {
  std::vector<int64_t> change(graph.operators.size() + 2, 0);
  for (const RecordedStorage& storage : graph.storages) {
    const OperatorId maker = graph.values[static_cast<size_t>(storage.values.front())].producer;
    if (storage.external || maker == kNone) continue;
    OperatorId last_reader = maker;
    for (const ValueId id : storage.values) {
      for (const OperatorId reader : graph.values[static_cast<size_t>(id)].readers) {
        last_reader = std::max(last_reader, reader);
      }
    }
    change[static_cast<size_t>(maker) + 1] += storage.bytes;
    change[static_cast<size_t>(last_reader) + 1] -= storage.bytes;
  }
  for (size_t op = 1; op < change.size(); ++op) change[op] += change[op - 1];
  return change;
}

}  // namespace

std::vector<int32_t> parts_between(
    const StepGraph& graph,
    const std::function<bool(const StepGraph&, const RecordedOperator&)>& runs_apart) {
  const std::vector<int64_t> across = bytes_across(graph);
  std::vector<int32_t> parts(graph.operators.size(), 0);
  int32_t part = 0;
  size_t from = 0;  // the first operator behind the last cut and the last that runs apart
  bool any = false;
  for (size_t op = 0; op < graph.operators.size(); ++op) {
    parts[op] = part;
    if (!runs_apart(graph, graph.operators[op])) continue;
    if (any) {
      size_t cut = from;
      for (size_t at = from; at <= op; ++at) {
        if (across[at] <= across[cut]) cut = at;
      }
      std::fill(parts.begin() + static_cast<std::ptrdiff_t>(cut),
                parts.begin() + static_cast<std::ptrdiff_t>(op) + 1, ++part);
    }
    any = true;
    from = op + 1;
  }
  return parts;
}

int64_t square_root_segments(const StepGraph& graph) {
  const auto storages =
      std::count_if(graph.storages.begin(), graph.storages.end(),
                    [&](const RecordedStorage& storage) { return graph.holds_saved(storage); });
  return std::max<int64_t>(std::lround(std::sqrt(static_cast<double>(storages))), 1);
}

namespace {

/// Returns the first operator of each segment but the first, if all save the same bytes.
std::vector<size_t> equal_cuts(const StepGraph& graph, int64_t count) {
  std::vector<int64_t> bytes_made(graph.operators.size(), 0);
  for (const RecordedStorage& storage : graph.storages) {
    if (!graph.holds_saved(storage)) continue;
    bytes_made[static_cast<size_t>(graph.value(storage.values.front()).producer)] += storage.bytes;
  }
  const int64_t all_bytes = graph.saved_bytes();
  std::vector<size_t> cuts;
  int64_t before = 0;
  for (size_t op = 0; op < graph.operators.size() && all_bytes > 0; ++op) {
    // An operator counts where the middle of its results lies, so that a large result belongs where
    // most of it lies.
    const int64_t middle = before + bytes_made[op] / 2;
    const int64_t segment = std::min(middle * count / all_bytes, count - 1);
    before += bytes_made[op];
    while (std::ssize(cuts) < segment) cuts.push_back(op);
  }
  return cuts;
}

/// Moves each cut to where the fewest bytes cross, but no further than halfway to the next.
std::vector<size_t> moved_cuts(const StepGraph& graph, const std::vector<size_t>& cuts) {
  const std::vector<int64_t> across = bytes_across(graph);
  std::vector<size_t> moved;
  for (size_t i = 0; i < cuts.size(); ++i) {
    const size_t before = i == 0 ? 0 : cuts[i - 1];
    const size_t behind = i + 1 == cuts.size() ? graph.operators.size() : cuts[i + 1];
    size_t cut = cuts[i];
    for (size_t at = (before + cuts[i] + 1) / 2; at < (cuts[i] + behind + 1) / 2; ++at) {
      if (across[at] < across[cut]) cut = at;
    }
    moved.push_back(cut);
  }
  return moved;
}

}  // namespace

void cut_into_segments(StepGraph& graph, int64_t count, CutPlace place) {
  std::vector<size_t> cuts = equal_cuts(graph, count);
  if (place == CutPlace::kFewBytes) cuts = moved_cuts(graph, cuts);
  graph.segments.clear();
  for (int64_t i = 0; i < count; ++i) graph.segments.push_back(std::to_string(i));
  size_t segment = 0;
  for (size_t op = 0; op < graph.operators.size(); ++op) {
    while (segment < cuts.size() && cuts[segment] <= op) ++segment;
    graph.operators[op].segment = SegmentId(segment);
    graph.operators[op].in_scope = false;
  }
  pass_on_to_readers(graph);
}

namespace {

/// The most bytes that the peak may be above that of keeping everything, and never more than a
/// quarter of it. A net of a few layers gains nothing at its peak, and a little more is no reason
/// to give up what it gains when forward ends.
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
