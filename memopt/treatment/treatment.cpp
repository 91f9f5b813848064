#include "memopt/treatment/treatment.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

namespace noisemark::memopt {
namespace {

constexpr std::array<std::string_view, 16> kReasonNames = {
    "",
    "made outside the model",
    "operator is not recomputed in this mode",
    "operator cannot be repeated",
    "made without history",
    "written in place",
    "a cast of a parameter, or of a form that is not plain",
    "crosses blocks",
    "small",
    "an input is not kept",
    "must be kept",
    "no room in host memory",
    "others cost less to recompute",
    "rounding could spoil a gradient",
    "the mode does not round its type",
    "the program holds it anyway",
};

/// Calls `visit(value, treatment, storage)` for the first saved value of every storage that is not
/// the model's or the batch's.
template <typename Visit>
void for_each_saved_storage(const TreatmentPlan& plan, Visit visit) {
  std::set<StorageId> seen;
  for (const SlotTreatment& slot : plan.slots) {
    const RecordedValue& value = plan.graph->values[static_cast<size_t>(slot.value)];
    const RecordedStorage& storage = plan.graph->storages[static_cast<size_t>(value.storage)];
    if (storage.external || !seen.insert(value.storage).second) continue;
    visit(slot.value, plan.values[static_cast<size_t>(slot.value)], storage);
  }
}

}  // namespace

std::string_view keep_reason_name(KeepReason reason) {
  return kReasonNames[static_cast<size_t>(reason)];
}

bool is_choice(KeepReason reason) {
  return reason == KeepReason::kCrossesSegments || reason == KeepReason::kSmall ||
         reason == KeepReason::kCostly;
}

bool is_refused_rounding(KeepReason reason) {
  return reason == KeepReason::kExact || reason == KeepReason::kTypeNotRounded;
}

PlanSummary summarize(const TreatmentPlan& plan) {
  PlanSummary summary;
  summary.recorded_bytes = plan.graph->saved_bytes();
  for (size_t v = 0; v < plan.values.size(); ++v) {
    if (plan.values[v].source != Source::kSliced) continue;
    summary.held_bytes += plan.graph->values[v].bytes();
  }
  for_each_saved_storage(
      plan, [&](ValueId, const ValueTreatment& treatment, const RecordedStorage& storage) {
        if (treatment.source == Source::kHeld) summary.held_bytes += storage.bytes;
        if (treatment.source == Source::kEncoded) summary.encoded_from_bytes += storage.bytes;
        if (treatment.source == Source::kMadeAgain) summary.dropped_bytes += storage.bytes;
        if (!is_refused_rounding(treatment.reason)) return;
        ++summary.unrounded_storages;
        summary.unrounded_bytes += storage.bytes;
      });
  summary.recipes = static_cast<int32_t>(plan.recipes.size());
  return summary;
}

int64_t irreplaceable_bytes(const TreatmentPlan& plan) {
  int64_t bytes = 0;
  for_each_saved_storage(
      plan, [&](ValueId, const ValueTreatment& treatment, const RecordedStorage& storage) {
        const bool kept = treatment.source == Source::kHeld || treatment.source == Source::kEncoded;
        if (kept && !is_choice(treatment.reason)) bytes += storage.bytes;
      });
  return bytes;
}

std::vector<HeldGroup> held_groups(const TreatmentPlan& plan) {
  std::map<std::pair<std::string, KeepReason>, HeldGroup> groups;
  for_each_saved_storage(
      plan, [&](ValueId id, const ValueTreatment& treatment, const RecordedStorage& storage) {
        if (treatment.source != Source::kHeld) return;
        const RecordedOperator* producer = plan.graph->producer_of(id);
        const std::string made_by = producer == nullptr ? "outside" : producer->name;
        HeldGroup& group = groups[{made_by, treatment.reason}];
        group.made_by = made_by;
        group.reason = treatment.reason;
        ++group.storages;
        group.bytes += storage.bytes;
      });
  std::vector<HeldGroup> sorted;
  for (auto& [key, group] : groups) sorted.push_back(std::move(group));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const HeldGroup& a, const HeldGroup& b) { return a.bytes > b.bytes; });
  return sorted;
}

}  // namespace noisemark::memopt
