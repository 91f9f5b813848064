#include "memopt/plan/resolve.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "memopt/plan/cuts.h"

namespace noisemark::memopt {
namespace {

/// A by-product that is recomputed, such as statistics, costs what the shortcut avoids.
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
  treatment.recipe = RecipeId(plan.recipes.size());
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
  std::vector<RecipeId> place(plan.recipes.size());
  std::vector<std::shared_ptr<const Recipe>> recipes;
  for (size_t v = 0; v < plan.values.size(); ++v) {
    ValueTreatment& treatment = plan.values[v];
    if (treatment.source != Source::kMadeAgain) continue;
    if (!needed[v]) {
      treatment = {};
      continue;
    }
    RecipeId& at = place[static_cast<size_t>(treatment.recipe)];
    if (at == kNone) {
      at = RecipeId(recipes.size());
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

namespace {

/// All of the memory is elements of one type, and the same whenever one of the values is saved.
bool can_be_one(const StepGraph& graph, const RecordedStorage& storage, at::ScalarType type) {
  const bool one_type = std::all_of(storage.values.begin(), storage.values.end(), [&](ValueId id) {
    return graph.value(id).slots.empty() || graph.value(id).dtype == type;
  });
  return one_type && !storage.written_in_place && !storage.written_in_parts &&
         storage.bytes % static_cast<int64_t>(c10::elementSize(type)) == 0;
}

class Encoder {
 public:
  Encoder(TreatmentPlan& plan, const Policy& policy, const Overrides& overrides)
      : plan_(plan),
        graph_(*plan.graph),
        policy_(policy),
        overrides_(overrides),
        recipes_read_(graph_.storages.size(), false),
        exact_(graph_.storages.size(), false) {
    for (const auto& recipe : plan_.recipes) {
      for (const ValueId input : recipe->inputs) {
        recipes_read_[static_cast<size_t>(value(input).storage)] = true;
      }
    }
    std::vector<bool> seen(graph_.values.size(), false);
    for (const RecordedSlot& slot : graph_.slots) {
      if (slot.exact) mark_exact_inputs(slot.value, seen);
    }
  }

  void run() {
    for (const RecordedStorage& storage : graph_.storages) encode_storage(storage);
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      if (treatment(id).source != Source::kSliced) continue;
      give_codecs(id, plan_.values[v]);
    }
  }

 private:
  [[nodiscard]] const RecordedValue& value(ValueId id) const { return graph_.value(id); }
  ValueTreatment& treatment(ValueId id) { return plan_.values[static_cast<size_t>(id)]; }

  void encode_storage(const RecordedStorage& storage) {
    if (!holds_all_saved(storage)) return;
    const std::optional<SavedMemory> memory = saved_memory(graph_, storage);
    if (!memory) return;
    ValueTreatment& first = treatment(memory->first);
    if (is_held_anyway(storage) && !policy_.codec(graph_, memory->first).empty()) {
      note(storage, KeepReason::kHeldAnyway);
      return;
    }
    note_unrounded(storage, memory->first);
    if (!give_codecs(memory->first, first)) {
      if (overrides_.no_room.count(value(memory->first).storage) != 0)
        note(storage, KeepReason::kNoRoomOnHost);
      return;
    }
    for (const ValueId id : storage.values) {
      if (value(id).slots.empty()) continue;
      treatment(id).source = Source::kEncoded;
      treatment(id).codec = first.codec;
      if (memory->whole) treatment(id).encoded_with = memory->first;
    }
  }

  /// An exact value is made of exact ones.
  void mark_exact_inputs(ValueId id, std::vector<bool>& seen) {
    if (seen[static_cast<size_t>(id)] || treatment(id).source != Source::kMadeAgain) return;
    seen[static_cast<size_t>(id)] = true;
    for (const ValueId input : plan_.recipes[static_cast<size_t>(treatment(id).recipe)]->inputs) {
      exact_[static_cast<size_t>(value(input).storage)] = true;
      mark_exact_inputs(input, seen);
    }
  }

  [[nodiscard]] bool holds_all_saved(const RecordedStorage& storage) {
    return std::all_of(storage.values.begin(), storage.values.end(), [this](ValueId id) {
      return value(id).slots.empty() || treatment(id).source == Source::kHeld;
    });
  }

  /// A choice of the policy comes before rounding.
  void note_unrounded(const RecordedStorage& storage, ValueId first) {
    const KeepReason why = reason_not_to_round(storage, first);
    if (!policy_.rounds || why == KeepReason::kNone) return;
    for (const ValueId id : storage.values) {
      KeepReason& reason = treatment(id).reason;
      if (!value(id).slots.empty() && !is_choice(reason)) reason = why;
    }
  }

  [[nodiscard]] KeepReason reason_not_to_round(const RecordedStorage& storage,
                                               ValueId first) const {
    const at::ScalarType type = value(first).dtype;
    if (value(first).small_result) return KeepReason::kNone;
    if (type == at::kDouble || at::isComplexType(type)) return KeepReason::kTypeNotRounded;
    const bool exact = storage.exact || exact_[static_cast<size_t>(value(first).storage)];
    return exact && at::isFloatingType(type) ? KeepReason::kExact : KeepReason::kNone;
  }

  /// Its operator cannot be run again either, but that does not matter here.
  void note(const RecordedStorage& storage, KeepReason why) {
    for (const ValueId id : storage.values) {
      if (!value(id).slots.empty()) treatment(id).reason = why;
    }
  }

  /// Returns whether the program itself holds the memory until backward has last asked for it.
  [[nodiscard]] bool is_held_anyway(const RecordedStorage& storage) const {
    if (!graph_.backward_ran || storage.gone_at_operator != kNone) return false;
    if (storage.gone_at_unpack == kNone) return true;
    return std::all_of(storage.values.begin(), storage.values.end(), [&](ValueId id) {
      const std::vector<SlotId>& slots = value(id).slots;
      return std::all_of(slots.begin(), slots.end(), [&](SlotId slot) {
        const int32_t asked_at = graph_.slots[static_cast<size_t>(slot)].unpack_order;
        return asked_at != kNone && asked_at < storage.gone_at_unpack;
      });
    });
  }

  /// Returns false when no codec is left.
  bool give_codecs(ValueId id, ValueTreatment& to) {
    std::vector<std::shared_ptr<const Codec>> codecs = policy_.codec(graph_, id);
    std::erase_if(codecs, [&](const std::shared_ptr<const Codec>& codec) {
      return overrides_.refuses(id, *codec) || !serves(id, *codec);
    });
    if (codecs.empty()) return false;
    to.codec = codecs.front().get();
    to.next_codecs.clear();
    for (size_t i = 1; i < codecs.size(); ++i) to.next_codecs.push_back(codecs[i].get());
    std::move(codecs.begin(), codecs.end(), std::back_inserter(plan_.codecs));
    return true;
  }

  /// A codec that keeps nothing but the sign is for autograd alone: a recipe reads values. One that
  /// rounds is not for what an exact value is made of.
  [[nodiscard]] bool serves(ValueId id, const Codec& codec) const {
    if (codec.lossless()) return true;
    const auto storage = static_cast<size_t>(value(id).storage);
    return codec.keeps_sign() ? !recipes_read_[storage] : !exact_[storage];
  }

  TreatmentPlan& plan_;
  const StepGraph& graph_;
  const Policy& policy_;
  const Overrides& overrides_;
  std::vector<bool> recipes_read_;  ///< one for each storage
  std::vector<bool> exact_;         ///< an exact value is made of the storage again
};

}  // namespace

std::optional<SavedMemory> saved_memory(const StepGraph& graph, const RecordedStorage& storage) {
  if (storage.external || storage.kept_as_is) return std::nullopt;
  SavedMemory memory;
  for (const ValueId id : storage.values) {
    const std::vector<SlotId>& slots = graph.value(id).slots;
    if (slots.empty()) continue;
    const bool shared = memory.first != kNone;
    if (!shared || slots.front() < graph.value(memory.first).slots.front()) memory.first = id;
    memory.whole = memory.whole || shared;
  }
  if (memory.first == kNone) return std::nullopt;
  const RecordedValue& first = graph.value(memory.first);
  memory.whole = memory.whole || !first.fills_its_memory();
  if (memory.whole && !can_be_one(graph, storage, first.dtype)) return std::nullopt;
  return memory;
}

RecordedValue form_to_encode(const StepGraph& graph, const RecordedStorage& storage,
                             const SavedMemory& memory) {
  RecordedValue form = graph.value(memory.first);
  if (memory.whole) {
    form.sizes = {storage.bytes / static_cast<int64_t>(c10::elementSize(form.dtype))};
  }
  return form;
}

void choose_encodings(TreatmentPlan& plan, const Policy& policy, const Overrides& overrides) {
  if (policy.codec) Encoder(plan, policy, overrides).run();
}

namespace {

constexpr SlotId kNotKnown = -2;

/// The most operators that are run, one after the other, to recompute a value from held ones. Each
/// takes some stack of the thread that runs backward.
constexpr int32_t kLongestChain = 1000;

class Resolver {
 public:
  Resolver(std::shared_ptr<const StepGraph> graph, const Policy& policy, const Overrides& overrides,
           RecipeBook& recipes)
      : graph_(*graph),
        policy_(policy),
        overrides_(overrides),
        recipes_(recipes),
        keep_(overrides.keep),
        crossing_(overrides.crossing),
        seen_(graph_.values.size(), 0) {
    if (policy_.runs_apart) parts_ = parts_between(graph_, policy_.runs_apart);
    plan_.graph = std::move(graph);
  }

  TreatmentPlan run() {
    // Keeping a value makes others available, never the reverse, so this ends.
    do {
      start_over();
      for (const RecordedSlot& slot : graph_.slots) visit(slot.value);
    } while (keep_more() || keep_between_parts());
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
    needs_apart_.assign(graph_.values.size(), std::nullopt);
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
    if (is_the_models(id)) {
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

  /// It is there when backward asks, as it was: the program does not write it in between.
  [[nodiscard]] bool is_the_models(ValueId id) const {
    return value(id).origin == RecordedValue::Origin::kModel && !storage(id).written_in_place &&
           !storage(id).kept_as_is && keep_.count(id) == 0;
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
    if (storage(id).kept_as_is) return KeepReason::kAsItIs;
    if (storage(id).written_in_place || would_live_with_gaps(id)) {
      return KeepReason::kWrittenInPlace;
    }
    if (!producer->repeatable) return KeepReason::kUnrepeatable;
    if (!value(id).has_history) return KeepReason::kNoHistory;
    if (!policy_.may_replay(graph_, *producer)) return KeepReason::kNotAllowed;
    if (keep_.count(id) != 0) return KeepReason::kMustBeKept;
    if (overrides_.spared.count(id) != 0) return KeepReason::kCostly;
    if (crossing_.count(id) != 0) return KeepReason::kCrossesSegments;
    if (!value(id).slots.empty() && value(id).small_result) return KeepReason::kSmall;
    if (policy_.keep_what_crosses_segments && crosses(id)) return KeepReason::kCrossesSegments;
    return missing_inputs(id).empty() ? KeepReason::kNone : KeepReason::kInputMissing;
  }

  /// A view that was written is recomputed in memory with gaps, and lives on in the graph of a
  /// backward that is differentiated itself: several of one memory then take more than it did.
  [[nodiscard]] bool would_live_with_gaps(ValueId id) const {
    const std::vector<SlotId>& slots = value(id).slots;
    return graph_.producer_of(id)->overwrites != kNone && !value(id).fills_its_memory() &&
           std::any_of(slots.begin(), slots.end(), [&](SlotId slot) {
             return graph_.slots[static_cast<size_t>(slot)].differentiated;
           });
  }

  /// Others may be made from it. One that was saved is held, which takes no memory either.
  [[nodiscard]] bool is_unsaved_view_of_model(ValueId id) const {
    return value(id).slots.empty() &&
           value(storage(id).values.front()).origin == RecordedValue::Origin::kModel;
  }

  std::vector<ValueId> missing_inputs(ValueId id) {
    std::vector<ValueId> missing;
    for (const ValueId input : recipes_.replay(value(id).producer)->inputs) {
      visit(input);
      // A tensor that was written in place may not be the one that the operator read.
      if (treatment(input).source == Source::kUnavailable || storage(input).written_in_place) {
        missing.push_back(input);
      }
    }
    return missing;
  }

  /// Returns whether parts of the value can be held instead of all of it: always when an input is
  /// missing, and for what crosses segments when all of it is parts of others.
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
    RecipeId& made_by = made_by_[static_cast<size_t>(producer)];
    if (made_by == kNone) {
      made_by = RecipeId(plan_.recipes.size());
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
    keep_ends_of_long_chains();
    return keep_.size() != before;
  }

  /// The inputs of an operator have lower numbers than its results.
  void keep_ends_of_long_chains() {
    std::vector<int32_t> chain(graph_.values.size(), 0);
    for (size_t v = 0; v < chain.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      for (const ValueId input : inputs_of(id)) {
        chain[v] = std::max(chain[v], chain[static_cast<size_t>(input)] + 1);
      }
      if (chain[v] < kLongestChain || value(id).slots.empty()) continue;
      keep_.insert(id);
      chain[v] = 0;
    }
  }

  /// The same for what would be made for one operator that runs apart by running another one.
  bool keep_between_parts() {
    const size_t before = crossing_.size();
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      if (treatment(v).source != Source::kMadeAgain || !runs_apart(v)) continue;
      ++search_;
      for (const ValueId input : inputs_of(v)) keep_of_earlier_parts(input, part_of(v));
    }
    return crossing_.size() != before;
  }

  void keep_of_earlier_parts(ValueId id, int32_t part) {
    if (std::exchange(seen_[static_cast<size_t>(id)], search_) == search_) return;
    if (!needs_apart(id)) return;
    if (part_of(id) < part && !value(id).slots.empty()) {
      crossing_.insert(id);
      return;
    }
    for (const ValueId input : inputs_of(id)) keep_of_earlier_parts(input, part);
  }

  [[nodiscard]] int32_t part_of(ValueId id) const {
    return parts_[static_cast<size_t>(value(id).producer)];
  }
  [[nodiscard]] bool runs_apart(ValueId id) const {
    return policy_.runs_apart && policy_.runs_apart(graph_, *graph_.producer_of(id));
  }

  /// Returns whether an operator that runs apart is run to recompute the value.
  bool needs_apart(ValueId id) {
    std::optional<bool>& known = needs_apart_[static_cast<size_t>(id)];
    if (known.has_value()) return *known;
    bool needs = treatment(id).source == Source::kMadeAgain && runs_apart(id);
    for (const ValueId input : inputs_of(id)) needs = needs_apart(input) || needs;
    return *(known = needs);
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
      const auto slices = slices_.find(static_cast<SlotId>(s));
      if (slices != slices_.end()) slot.slices = slices->second;
    }
    ++search_;
    for (size_t s = 0; s < plan_.slots.size(); ++s) {
      if (plan_.slots[s].drops) mark_suppliers(plan_.slots[s].value);
    }
  }

  /// Marks the slots that bring what `id` needs, as far as this search has not met it.
  void mark_suppliers(ValueId id) {
    std::vector<ValueId> open{id};
    while (!open.empty()) {
      const ValueId next = open.back();
      open.pop_back();
      if (std::exchange(seen_[static_cast<size_t>(next)], search_) == search_) continue;
      mark_supplier(next);
      plan_.each_need(next, [&open](ValueId need) { open.push_back(need); });
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
  std::set<ValueId> crossing_;
  std::vector<int32_t> parts_;  ///< part of each operator; is empty where none runs apart
  TreatmentPlan plan_;
  std::vector<bool> visited_;
  std::map<SlotId, std::vector<Slice>> slices_;
  std::vector<RecipeId> made_by_;                 ///< one for each operator
  std::vector<SlotId> last_supplier_;             ///< supplier of each value, or kNotKnown
  std::vector<std::optional<bool>> needs_apart_;  ///< one for each value; is empty where it is not
                                                  ///< known
  std::vector<int64_t> seen_;                     ///< last search that met each value
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
