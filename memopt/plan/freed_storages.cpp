#include "memopt/plan/freed_storages.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "memopt/plan/encodings.h"

namespace noisemark::memopt {
namespace {

class Shares {
 public:
  Shares(const TreatmentPlan& plan, const CodecFigures& figures)
      : plan_(plan),
        graph_(*plan.graph),
        figures_(figures),
        seen_(plan.recipes.size(), 0),
        run_for_(plan.recipes.size(), 0) {}

  std::vector<FreedStorage> all() {
    for (size_t s = 0; s < graph_.storages.size(); ++s) look_at(static_cast<StorageId>(s));
    for (size_t i = 0; i < freed_.size(); ++i) {
      for (const size_t recipe : recipes_[i]) {
        freed_[i].ns += static_cast<double>(plan_.recipes[recipe]->cost_ns) / run_for_[recipe];
      }
    }
    return std::move(freed_);
  }

 private:
  [[nodiscard]] const RecordedStorage& storage(StorageId id) const {
    return graph_.storages[static_cast<size_t>(id)];
  }
  [[nodiscard]] const RecordedValue& value(ValueId id) const {
    return graph_.values[static_cast<size_t>(id)];
  }
  [[nodiscard]] const ValueTreatment& treatment(ValueId id) const {
    return plan_.values[static_cast<size_t>(id)];
  }

  void look_at(StorageId id) {
    const std::optional<Source> source = source_of(storage(id));
    if (source == Source::kEncoded) add_encoded(id);
    if (source == Source::kMadeAgain) add_made_again(id);
  }

  /// The same for all of its saved values; empty where that is not so.
  [[nodiscard]] std::optional<Source> source_of(const RecordedStorage& storage) const {
    std::optional<Source> source;
    if (storage.external) return source;
    for (const ValueId id : storage.values) {
      if (value(id).slots.empty()) continue;
      if (source.value_or(treatment(id).source) != treatment(id).source) return std::nullopt;
      source = treatment(id).source;
    }
    return source;
  }

  void add_encoded(StorageId id) {
    const std::optional<SavedMemory> memory = saved_memory(graph_, storage(id));
    if (!memory) return;
    const Codec* codec = treatment(memory->first).codec;
    const CodecFigure figure = figures_(*codec, form_to_encode(graph_, storage(id), *memory));
    const std::vector<ValueId>& values = storage(id).values;
    const bool decoded = std::any_of(values.begin(), values.end(),
                                     [this](ValueId v) { return is_asked_for(graph_, v); });
    add({.storage = id,
         .bytes = storage(id).bytes - figure.bytes,
         .ns = static_cast<double>(figure.encode_ns + (decoded ? figure.decode_ns : 0))},
        {});
  }

  void add_made_again(StorageId id) {
    int64_t bytes = storage(id).bytes;
    for (const ValueId v : storage(id).values) {
      for (const SlotId slot : value(v).slots) bytes -= bytes_cut_out(slot);
    }
    std::vector<size_t> recipes = recipes_for(id);
    for (const size_t recipe : recipes) run_for_[recipe] += 1;
    add({.storage = id, .bytes = bytes}, std::move(recipes));
  }

  void add(const FreedStorage& freed, std::vector<size_t> recipes) {
    if (freed.bytes <= 0) return;
    freed_.push_back(freed);
    recipes_.push_back(std::move(recipes));
  }

  [[nodiscard]] int64_t bytes_cut_out(SlotId slot) const {
    int64_t bytes = 0;
    for (const Slice& slice : plan_.slots[static_cast<size_t>(slot)].slices) {
      bytes += value(slice.value).bytes();
    }
    return bytes;
  }

  /// Those of its values, and on the way of what nobody saved. What is saved has its own.
  std::vector<size_t> recipes_for(StorageId id) {
    std::vector<ValueId> open;
    for (const ValueId v : storage(id).values) {
      if (is_asked_for(graph_, v)) open.push_back(v);
    }
    std::vector<size_t> recipes;
    ++search_;
    while (!open.empty()) {
      const ValueTreatment& made = treatment(open.back());
      open.pop_back();
      if (made.source != Source::kMadeAgain) continue;
      const auto recipe = static_cast<size_t>(made.recipe);
      if (std::exchange(seen_[recipe], search_) == search_) continue;
      recipes.push_back(recipe);
      for (const ValueId input : plan_.recipes[recipe]->inputs) {
        if (value(input).slots.empty() || value(input).storage == id) open.push_back(input);
      }
    }
    return recipes;
  }

  const TreatmentPlan& plan_;
  const StepGraph& graph_;
  const CodecFigures& figures_;
  std::vector<int32_t> seen_;    ///< by recipe, the last search that met it
  std::vector<double> run_for_;  ///< by recipe, how many storages need it
  int32_t search_ = 0;
  std::vector<FreedStorage> freed_;
  std::vector<std::vector<size_t>> recipes_;  ///< by freed storage
};

}  // namespace

std::vector<FreedStorage> freed_storages(const TreatmentPlan& plan, const CodecFigures& figures) {
  return Shares(plan, figures).all();
}

bool is_asked_for(const StepGraph& graph, ValueId id) {
  const std::vector<SlotId>& slots = graph.values[static_cast<size_t>(id)].slots;
  return std::any_of(slots.begin(), slots.end(), [&](SlotId slot) {
    return graph.slots[static_cast<size_t>(slot)].unpack_order != kNone;
  });
}

}  // namespace noisemark::memopt
