#include "memopt/plan/resolve.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "memopt/plan/encodings.h"
#include "memopt/plan/shortcuts.h"

namespace noisemark::memopt {
namespace {

constexpr SlotId kNotKnown = -2;

class Resolver {
 public:
  Resolver(std::shared_ptr<const StepGraph> graph, const Policy& policy, const Overrides& overrides,
           RecipeBook& recipes)
      : graph_(*graph),
        policy_(policy),
        overrides_(overrides),
        recipes_(recipes),
        keep_(overrides.keep),
        seen_(graph_.values.size(), 0) {
    plan_.graph = std::move(graph);
  }

  TreatmentPlan run() {
    // Keeping a value makes others available, never the reverse, so this ends.
    do {
      start_over();
      for (const RecordedSlot& slot : graph_.slots) visit(slot.value);
    } while (keep_more());
    take_shortcuts(plan_, overrides_, recipes_);
    choose_encodings(plan_, policy_, overrides_);
    fill_slots();
    count_reads();
    mark_rounded();
    return std::move(plan_);
  }

 private:
  void start_over() {
    plan_.values.assign(graph_.values.size(), {});
    plan_.recipes.clear();
    visited_.assign(graph_.values.size(), false);
    slices_.clear();
    made_by_.assign(graph_.operators.size(), kNone);
    last_supplier_.assign(graph_.values.size(), kNotKnown);
  }

  [[nodiscard]] const RecordedValue& value(ValueId id) const {
    return graph_.values[static_cast<size_t>(id)];
  }
  [[nodiscard]] const RecordedStorage& storage(ValueId id) const {
    return graph_.storages[static_cast<size_t>(value(id).storage)];
  }
  ValueTreatment& treatment(ValueId id) { return plan_.values[static_cast<size_t>(id)]; }

  /// Decides `id` and all it is made from. An operator cannot depend on its own result, so the
  /// recursion ends.
  void visit(ValueId id) {
    if (visited_[static_cast<size_t>(id)]) return;
    visited_[static_cast<size_t>(id)] = true;
    if (value(id).origin == RecordedValue::Origin::kModel && !storage(id).written_in_place) {
      treatment(id).source = Source::kModel;
      return;
    }
    const KeepReason reason = reason_to_keep(id);
    if (reason == KeepReason::kNone || made_from_slices(id, reason)) {
      make_again(id);
    } else if (!value(id).slots.empty()) {
      hold(id, reason);
    }
  }

  void hold(ValueId id, KeepReason reason) {
    treatment(id).source = Source::kHeld;
    treatment(id).reason = reason;
    treatment(id).supplied_by = value(id).slots.front();
  }

  KeepReason reason_to_keep(ValueId id) {
    const RecordedOperator* producer = graph_.producer_of(id);
    const bool foreign = storage(id).external && !is_unsaved_view_of_model(id);
    if (producer == nullptr || foreign) return KeepReason::kForeign;
    if (storage(id).written_in_place) return KeepReason::kWrittenInPlace;
    if (!producer->repeatable) return KeepReason::kUnrepeatable;
    if (!value(id).has_history) return KeepReason::kNoHistory;
    if (!policy_.may_replay(graph_, *producer)) return KeepReason::kNotAllowed;
    if (keep_.count(id) != 0) return KeepReason::kMustBeKept;
    if (overrides_.spared.count(id) != 0) return KeepReason::kDear;
    if (overrides_.crossing.count(id) != 0) return KeepReason::kCrossesSegments;
    if (!value(id).slots.empty() && is_small_result(graph_, id)) return KeepReason::kSmall;
    if (policy_.keep_what_crosses_segments && crosses(id)) return KeepReason::kCrossesSegments;
    return missing_inputs(id).empty() ? KeepReason::kNone : KeepReason::kInputMissing;
  }

  /// Others may be made from it. One that was saved is held, which takes no memory either.
  [[nodiscard]] bool is_unsaved_view_of_model(ValueId id) const {
    return value(id).slots.empty() &&
           value(storage(id).values.front()).origin == RecordedValue::Origin::kModel;
  }

  std::vector<ValueId> missing_inputs(ValueId id) {
    std::vector<ValueId> missing;
    for (const Argument& argument : graph_.producer_of(id)->arguments) {
      for (const ValueId input : argument.values) {
        if (input == kNone) continue;
        visit(input);
        // What was written in place may not be what the operator read.
        if (treatment(input).source == Source::kUnavailable || storage(input).written_in_place) {
          missing.push_back(input);
        }
      }
    }
    return missing;
  }

  /// Whether parts of the value can be held instead of all of it: always when an input is missing,
  /// and for what crosses segments when all of it is parts of others.
  bool made_from_slices(ValueId id, KeepReason reason) {
    if (reason == KeepReason::kInputMissing) return cut_out(id, missing_inputs(id));
    if (reason != KeepReason::kCrossesSegments) return false;
    for (const Argument& argument : graph_.producer_of(id)->arguments) {
      for (const ValueId input : argument.values) {
        if (input != kNone && !slice_of_input(graph_, id, input).has_value()) return false;
      }
    }
    const std::vector<ValueId> missing = missing_inputs(id);
    return missing.empty() || cut_out(id, missing);
  }

  /// Makes `missing` available as slices of `id` where that holds fewer bytes than it releases.
  bool cut_out(ValueId id, const std::vector<ValueId>& missing) {
    if (!policy_.slices || value(id).slots.empty() || !alone_in_storage(id)) return false;
    std::vector<Slice> slices;
    int64_t held_bytes = 0;
    for (const ValueId input : missing) {
      std::optional<Slice> slice = slice_of_input(graph_, id, input);
      if (!slice) return false;
      held_bytes += value(input).bytes();
      slices.push_back(std::move(*slice));
    }
    if (held_bytes >= storage(id).bytes) return false;
    const SlotId slot = value(id).slots.front();
    for (Slice& slice : slices) {
      treatment(slice.value) = {.source = Source::kSliced, .supplied_by = slot};
      slices_[slot].push_back(std::move(slice));
    }
    return true;
  }

  /// No other value of the storage is saved: dropping this one frees the memory.
  [[nodiscard]] bool alone_in_storage(ValueId id) const {
    const std::vector<ValueId>& values = storage(id).values;
    return std::all_of(values.begin(), values.end(),
                       [&](ValueId other) { return other == id || value(other).slots.empty(); });
  }

  [[nodiscard]] bool crosses(ValueId id) const {
    const RecordedOperator* producer = graph_.producer_of(id);
    const std::vector<OperatorId>& readers = value(id).readers;
    return std::any_of(readers.begin(), readers.end(), [&](OperatorId reader) {
      return graph_.operators[static_cast<size_t>(reader)].segment != producer->segment;
    });
  }

  void make_again(ValueId id) {
    const OperatorId producer = value(id).producer;
    int32_t& made_by = made_by_[static_cast<size_t>(producer)];
    if (made_by == kNone) {
      made_by = static_cast<int32_t>(plan_.recipes.size());
      plan_.recipes.push_back(recipes_.replay(producer));
    }
    treatment(id).source = Source::kMadeAgain;
    treatment(id).recipe = made_by;
    const RecordedOperator& recorded = graph_.operators[static_cast<size_t>(producer)];
    treatment(id).light = policy_.light && policy_.light(graph_, recorded);
  }

  [[nodiscard]] const std::vector<ValueId>& inputs_of(ValueId id) {
    static const std::vector<ValueId> none;
    if (treatment(id).source != Source::kMadeAgain) return none;
    return plan_.recipes[static_cast<size_t>(treatment(id).recipe)]->inputs;
  }

  /// All values that must be held so that `id` can be had, in the order of their numbers.
  std::vector<ValueId> needs_of(ValueId id) {
    std::vector<ValueId> needs;
    ++search_;
    const auto need = [&](ValueId value) {
      if (std::exchange(seen_[static_cast<size_t>(value)], search_) != search_) {
        needs.push_back(value);
      }
    };
    need(id);
    for (size_t i = 0; i < needs.size(); ++i) {
      const ValueId with = treatment(needs[i]).encoded_with;
      if (with != kNone) need(with);
      for (const ValueId input : inputs_of(needs[i])) need(input);
    }
    std::sort(needs.begin(), needs.end());
    return needs;
  }

  /// The last slot that brings something that `id` is made from.
  SlotId last_supplier(ValueId id) {
    const auto at = static_cast<size_t>(id);
    if (last_supplier_[at] != kNotKnown) return last_supplier_[at];
    SlotId last = treatment(id).supplied_by;
    for (const ValueId input : inputs_of(id)) last = std::max(last, last_supplier(input));
    return last_supplier_[at] = last;
  }

  /// Values that would have to be kept after all; false when there are none.
  bool keep_more() {
    const size_t before = keep_.size();
    for (size_t s = 0; s < graph_.slots.size(); ++s) {
      const ValueId id = graph_.slots[s].value;
      if (treatment(id).source != Source::kMadeAgain) continue;
      const bool too_late = last_supplier(id) > static_cast<SlotId>(s);
      if (too_late || shares_held_storage(id)) keep_.insert(id);
    }
    return keep_.size() != before;
  }

  /// Another value keeps the memory alive anyway.
  [[nodiscard]] bool shares_held_storage(ValueId id) {
    const std::vector<ValueId>& values = storage(id).values;
    return std::any_of(values.begin(), values.end(), [&](ValueId other) {
      return other != id && treatment(other).source == Source::kHeld;
    });
  }

  void fill_slots() {
    plan_.slots.resize(graph_.slots.size());
    for (size_t s = 0; s < graph_.slots.size(); ++s) {
      SlotTreatment& slot = plan_.slots[s];
      slot.value = graph_.slots[s].value;
      const Source source = treatment(slot.value).source;
      slot.drops = source == Source::kMadeAgain || source == Source::kEncoded;
      if (slot.drops) {
        for (const ValueId need : needs_of(slot.value)) {
          if (treatment(need).source != Source::kModel) slot.needs.push_back(need);
        }
      }
      const auto slices = slices_.find(static_cast<SlotId>(s));
      if (slices != slices_.end()) slot.slices = slices->second;
    }
    for (const SlotTreatment& slot : plan_.slots) {
      for (const ValueId need : slot.needs) mark_supplier(need);
    }
  }

  void mark_supplier(ValueId id) {
    const SlotId supplier = treatment(id).supplied_by;
    if (supplier == kNone || treatment(id).source == Source::kSliced) return;
    plan_.slots[static_cast<size_t>(supplier)].supplies = true;
  }

  void count_reads() {
    for (const SlotTreatment& slot : plan_.slots) {
      if (slot.drops) ++treatment(slot.value).reads;
    }
    std::vector<bool> counted(plan_.recipes.size(), false);
    for (const SlotTreatment& slot : plan_.slots) {
      if (slot.drops) count_reads_of(slot.value, counted);
    }
  }

  /// Every recipe runs once. In a two-level plan what feeds a heavy operator is made on the side
  /// and read without being counted.
  void count_reads_of(ValueId id, std::vector<bool>& counted) {
    if (treatment(id).source != Source::kMadeAgain) return;
    const auto recipe = static_cast<size_t>(treatment(id).recipe);
    if (counted[recipe]) return;
    counted[recipe] = true;
    for (const ValueId input : plan_.recipes[recipe]->inputs) {
      if (!treatment(id).light && treatment(input).light) continue;
      ++treatment(input).reads;
      count_reads_of(input, counted);
    }
  }

  void mark_rounded() {
    std::vector<bool> known(plan_.values.size(), false);
    for (const SlotTreatment& slot : plan_.slots) mark_rounded(slot.value, known);
  }

  bool mark_rounded(ValueId id, std::vector<bool>& known) {
    ValueTreatment& own = treatment(id);
    if (known[static_cast<size_t>(id)]) return own.rounded;
    known[static_cast<size_t>(id)] = true;
    own.rounded = own.codec != nullptr && !own.codec->lossless();
    for (const ValueId input : inputs_of(id)) {
      if (mark_rounded(input, known)) own.rounded = true;
    }
    return own.rounded;
  }

  const StepGraph& graph_;
  const Policy& policy_;
  const Overrides& overrides_;
  RecipeBook& recipes_;
  std::set<ValueId> keep_;
  TreatmentPlan plan_;
  std::vector<bool> visited_;
  std::map<SlotId, std::vector<Slice>> slices_;
  std::vector<int32_t> made_by_;       ///< by operator, index of its recipe
  std::vector<SlotId> last_supplier_;  ///< by value, or kNotKnown
  std::vector<int64_t> seen_;          ///< by value, the last search that met it
  int64_t search_ = 0;
};

}  // namespace

bool Overrides::refuses(ValueId id, const Codec& codec) const {
  if (as_saved.count(id) != 0) return true;
  const auto forms = refused.find(id);
  if (forms == refused.end()) return false;
  const std::string form = codec.form();
  return std::any_of(forms->second.begin(), forms->second.end(), [&](const std::string& known) {
    return form.starts_with(known) && (form.size() == known.size() || form[known.size()] == '+');
  });
}

TreatmentPlan resolve(std::shared_ptr<const StepGraph> graph, const Policy& policy,
                      const Overrides& overrides) {
  RecipeBook recipes(graph, overrides.shortcut_ns);
  return resolve(std::move(graph), policy, overrides, recipes);
}

TreatmentPlan resolve(std::shared_ptr<const StepGraph> graph, const Policy& policy,
                      const Overrides& overrides, RecipeBook& recipes) {
  return Resolver(std::move(graph), policy, overrides, recipes).run();
}

}  // namespace noisemark::memopt
