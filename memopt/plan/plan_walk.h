#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memopt/treatment/treatment.h"

namespace noisemark::memopt {

/// The one walk over the values of a plan, in one step: which are held when a slot is saved, in
/// which order they are recomputed when backward asks, which of them are kept for a later reader,
/// and when each is let go. A pass runs it with tensors (replay/execution.h), and a prediction with
/// bytes (peak_timeline.h), so the two cannot drift apart.
///
/// `Memory` is a piece of memory; a default one is none. `Store` does the work on it. It has
///   is_there(memory)            says whether it is one
///   look_at(slot, saved)        looks at what is saved before it is held
///   hold_slice(slice, saved)    cuts a part out of what the slot saves, and holds it
///   hold(id, saved)             holds what the slot saves
///   from_elsewhere(id)          gives a value of the model, or one that is nowhere to be had
///   held(id)                    gives a held value, decoded where needed
///   decodes_for_reader(id)      says whether held() makes new memory for each reader
///   begin(recipe, aside)        is told of a recipe's number before its inputs are made
///   run(recipe, inputs)         recomputes values
///   require_made(recipe, id, m) checks what a recipe gave
///   let_go(id)                  lets go of a held value that nobody needs any more
///   let_go_decoded(id)          lets go of what an encoding that several values share gave
template <typename Memory, typename Store>
class PlanWalk {
 public:
  PlanWalk(const TreatmentPlan& plan, Store& store)
      : plan_(plan),
        store_(store),
        uses_(plan.values.size(), 0),
        reads_left_(plan.values.size(), 0),
        shared_reads_left_(plan.values.size(), 0),
        cache_(plan.values.size()),
        asked_(plan.slots.size(), false),
        inputs_read_(plan.recipes.size(), false) {
    for (const SlotTreatment& slot : plan.slots) {
      if (slot.drops) use(slot.value);
    }
    begin_round();
  }

  /// `slot` saves this.
  void supply(SlotId slot, const Memory& saved) {
    const SlotTreatment& own = plan_.slots[static_cast<size_t>(slot)];
    for (const Slice& slice : own.slices) store_.hold_slice(slice, saved);
    store_.look_at(slot, saved);
    const ValueTreatment& value = treatment(own.value);
    const bool first = value.supplied_by == slot;
    if (first && (own.supplies || value.source == Source::kEncoded)) store_.hold(own.value, saved);
  }

  /// Gives what the slot dropped, for backward or to compare with. Whoever asks holds it from then
  /// on: a graph that is retained releases its slots long after its last use of them. A slot that
  /// is asked a second time begins another backward pass.
  Memory ask(SlotId slot) {
    note_asked(slot);
    const ValueId value = plan_.slots[static_cast<size_t>(slot)].value;
    Memory memory = get(value, nullptr);
    drop_reader(value);
    return memory;
  }

  /// Backward has got the slot's value from elsewhere.
  void pass_over(SlotId slot) {
    note_asked(slot);
    forgo(plan_.slots[static_cast<size_t>(slot)].value);
  }

  /// Backward is done with the slot.
  void release(SlotId slot) {
    const SlotTreatment& own = plan_.slots[static_cast<size_t>(slot)];
    if (!own.drops) return;
    if (!asked_[static_cast<size_t>(slot)]) drop_reader(own.value);
    unuse(own.value);
  }

  /// A slot was asked a second time.
  [[nodiscard]] bool asked_again() const { return asked_again_; }
  /// The value is there for its next reader, without being made or decoded.
  [[nodiscard]] bool is_cached(ValueId id) const {
    return store_.is_there(cache_[static_cast<size_t>(id)]);
  }

 private:
  /// Whoever uses a value uses what it needs through it: a long chain is counted once for all of
  /// its slots.
  void use(ValueId id) {
    std::vector<ValueId> more{id};
    while (!more.empty()) {
      const ValueId next = more.back();
      more.pop_back();
      if (uses_[static_cast<size_t>(next)]++ > 0) continue;
      plan_.each_need(next, [&more](ValueId need) { more.push_back(need); });
    }
  }

  void unuse(ValueId id) {
    std::vector<ValueId> less{id};
    while (!less.empty()) {
      const ValueId next = less.back();
      less.pop_back();
      if (--uses_[static_cast<size_t>(next)] > 0) continue;
      store_.let_go(next);
      cache_[static_cast<size_t>(next)] = Memory();
      plan_.each_need(next, [&less](ValueId need) { less.push_back(need); });
    }
  }

  void note_asked(SlotId slot) {
    const auto at = static_cast<size_t>(slot);
    if (asked_[at]) {
      begin_round();
      asked_again_ = true;
    }
    asked_[at] = true;
  }

  void begin_round() {
    asked_.assign(asked_.size(), false);
    inputs_read_.assign(inputs_read_.size(), false);
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      reads_left_[v] = plan_.values[v].reads;
      cache_[v] = Memory();
      shared_reads_left_[v] = 0;
    }
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      const ValueId with = plan_.values[v].encoded_with;
      if (with != kNone) shared_reads_left_[static_cast<size_t>(with)] += plan_.values[v].reads;
    }
  }

  /// The values that are made on the side while a heavy operator is replayed.
  using Local = std::unordered_map<ValueId, Memory>;

  [[nodiscard]] const ValueTreatment& treatment(ValueId id) const {
    return plan_.values[static_cast<size_t>(id)];
  }

  Memory get(ValueId id, Local* local) {
    if (local != nullptr && local->count(id) != 0) return local->at(id);
    if (is_cached(id)) return cache_[static_cast<size_t>(id)];
    switch (treatment(id).source) {
      case Source::kHeld:
      case Source::kEncoded:
      case Source::kSliced:
        return held(id);
      case Source::kMadeAgain:
        return make_again(id, local);
      case Source::kModel:
      case Source::kUnavailable:
        break;
    }
    return store_.from_elsewhere(id);
  }

  Memory held(ValueId id) {
    Memory memory = store_.held(id);
    if (store_.decodes_for_reader(id)) keep_for_readers(id, memory);
    return memory;
  }

  Memory make_again(ValueId id, Local* local) {
    const Recipe& recipe = *plan_.recipes[static_cast<size_t>(treatment(id).recipe)];
    const bool light = treatment(id).light;
    const bool aside = local != nullptr && light;
    store_.begin(treatment(id).recipe, aside);
    const std::vector<Memory> results = store_.run(recipe, inputs_of(recipe, light, local));
    if (!aside) {
      inputs_read_[static_cast<size_t>(treatment(id).recipe)] = true;
      each_input(id, [this](ValueId input) { drop_reader(input); });
    }
    Memory wanted;
    for (size_t i = 0; i < recipe.results.size() && i < results.size(); ++i) {
      const ValueId result = recipe.results[i];
      if (result == kNone) continue;
      if (result == id) wanted = results[i];
      if (treatment(result).source != Source::kMadeAgain) continue;
      if (aside) {
        (*local)[result] = results[i];
      } else {
        keep_for_readers(result, results[i]);
      }
    }
    store_.require_made(recipe, id, wanted);
    return wanted;
  }

  /// Tells each input that waits for this value: a light one is made on the side.
  void each_input(ValueId made, const auto& tell) const {
    for (const ValueId input : plan_.recipes[static_cast<size_t>(treatment(made).recipe)]->inputs) {
      if (treatment(made).light || !treatment(input).light) tell(input);
    }
  }

  /// A light value that feeds a heavy operator is made on the side and let go with it.
  std::vector<Memory> inputs_of(const Recipe& recipe, bool light, Local* local) {
    Local own;
    Local* side = light ? local : &own;
    std::vector<Memory> inputs;
    inputs.reserve(recipe.inputs.size());
    for (const ValueId input : recipe.inputs) {
      inputs.push_back(get(input, treatment(input).light ? side : nullptr));
    }
    return inputs;
  }

  void keep_for_readers(ValueId id, const Memory& memory) {
    const auto at = static_cast<size_t>(id);
    if (reads_left_[at] > 0) cache_[at] = memory;
  }

  /// Counts one reader of the value less, and lets the value go after the last.
  void drop_reader(ValueId id) {
    const auto at = static_cast<size_t>(id);
    if (--reads_left_[at] <= 0) cache_[at] = Memory();
    const ValueId with = treatment(id).encoded_with;
    if (with == kNone) return;
    if (--shared_reads_left_[static_cast<size_t>(with)] <= 0) store_.let_go_decoded(with);
  }

  /// A reader does without the value. Where nobody waits for any result of its recipe, the recipe
  /// does not run in this round, and what it reads has a reader less.
  void forgo(ValueId id) {
    drop_reader(id);
    if (treatment(id).source != Source::kMadeAgain) return;
    const auto recipe = static_cast<size_t>(treatment(id).recipe);
    if (inputs_read_[recipe] || is_awaited(*plan_.recipes[recipe])) return;
    inputs_read_[recipe] = true;
    each_input(id, [this](ValueId input) { forgo(input); });
  }

  /// A reader is left of something that the recipe makes.
  [[nodiscard]] bool is_awaited(const Recipe& recipe) const {
    return std::any_of(recipe.results.begin(), recipe.results.end(), [this](ValueId result) {
      return result != kNone && treatment(result).source == Source::kMadeAgain &&
             reads_left_[static_cast<size_t>(result)] > 0;
    });
  }

  const TreatmentPlan& plan_;
  Store& store_;
  std::vector<int32_t> uses_;  ///< number of slots and values made from each value that some slot
                               ///< still needs
  std::vector<int32_t> reads_left_;         ///< one for each value
  std::vector<int32_t> shared_reads_left_;  ///< reads left of all values encoded with each value
  std::vector<Memory> cache_;
  std::vector<bool> asked_;        ///< this backward pass asked for a slot
  std::vector<bool> inputs_read_;  ///< a recipe has run in this pass, or never will
  bool asked_again_ = false;
};

}  // namespace noisemark::memopt
