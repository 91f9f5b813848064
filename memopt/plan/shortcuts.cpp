#include "memopt/plan/shortcuts.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace noisemark::memopt {
namespace {

/// A by-product that is made again, such as statistics, costs what the shortcut avoids.
bool is_at_hand(const TreatmentPlan& plan, ValueId id) {
  const Source source = plan.values[static_cast<size_t>(id)].source;
  const bool by_product = plan.graph->values[static_cast<size_t>(id)].result_index > 0;
  return source != Source::kUnavailable && !(by_product && source == Source::kMadeAgain);
}

void shorten(TreatmentPlan& plan, const Overrides& overrides, RecipeBook& recipes, ValueId id) {
  ValueTreatment& treatment = plan.values[static_cast<size_t>(id)];
  if (treatment.source != Source::kMadeAgain || overrides.replay.count(id) != 0) return;
  const std::shared_ptr<const Recipe>& shortcut = recipes.shortcut(id);
  if (shortcut == nullptr) return;
  const bool complete = std::all_of(shortcut->inputs.begin(), shortcut->inputs.end(),
                                    [&](ValueId input) { return is_at_hand(plan, input); });
  if (!complete) return;
  treatment.recipe = static_cast<int32_t>(plan.recipes.size());
  plan.recipes.push_back(shortcut);
}

/// Values that backward asks for, and all they are made from.
std::vector<bool> needed_values(const TreatmentPlan& plan) {
  std::vector<bool> needed(plan.values.size(), false);
  std::vector<ValueId> open;
  const auto need = [&](ValueId id) {
    if (needed[static_cast<size_t>(id)]) return;
    needed[static_cast<size_t>(id)] = true;
    open.push_back(id);
  };
  for (const RecordedSlot& slot : plan.graph->slots) need(slot.value);
  while (!open.empty()) {
    const ValueTreatment& treatment = plan.values[static_cast<size_t>(open.back())];
    open.pop_back();
    if (treatment.source != Source::kMadeAgain) continue;
    for (const ValueId input : plan.recipes[static_cast<size_t>(treatment.recipe)]->inputs) {
      need(input);
    }
  }
  return needed;
}

void drop_what_is_not_needed(TreatmentPlan& plan) {
  const std::vector<bool> needed = needed_values(plan);
  std::vector<int32_t> place(plan.recipes.size(), kNone);
  std::vector<std::shared_ptr<const Recipe>> recipes;
  for (size_t v = 0; v < plan.values.size(); ++v) {
    ValueTreatment& treatment = plan.values[v];
    if (treatment.source != Source::kMadeAgain) continue;
    if (!needed[v]) {
      treatment = {};
      continue;
    }
    int32_t& at = place[static_cast<size_t>(treatment.recipe)];
    if (at == kNone) {
      at = static_cast<int32_t>(recipes.size());
      recipes.push_back(std::move(plan.recipes[static_cast<size_t>(treatment.recipe)]));
    }
    treatment.recipe = at;
  }
  plan.recipes = std::move(recipes);
}

}  // namespace

void take_shortcuts(TreatmentPlan& plan, const Overrides& overrides, RecipeBook& recipes) {
  for (size_t v = 0; v < plan.values.size(); ++v) {
    shorten(plan, overrides, recipes, static_cast<ValueId>(v));
  }
  drop_what_is_not_needed(plan);
}

}  // namespace noisemark::memopt
