#include "memopt/plan/encodings.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace noisemark::memopt {
namespace {

const RecordedValue& value_at(const StepGraph& graph, ValueId id) {
  return graph.values[static_cast<size_t>(id)];
}

/// All of the memory is elements of one type, and the same whenever one of the values is saved.
bool can_be_one(const StepGraph& graph, const RecordedStorage& storage, at::ScalarType type) {
  const bool one_type = std::all_of(storage.values.begin(), storage.values.end(), [&](ValueId id) {
    return value_at(graph, id).slots.empty() || value_at(graph, id).dtype == type;
  });
  return one_type && !storage.written_in_place &&
         storage.bytes % static_cast<int64_t>(c10::elementSize(type)) == 0;
}

class Encoder {
 public:
  Encoder(TreatmentPlan& plan, const Policy& policy, const Overrides& overrides)
      : plan_(plan),
        graph_(*plan.graph),
        policy_(policy),
        overrides_(overrides),
        recipes_read_(graph_.storages.size(), false) {
    for (const auto& recipe : plan_.recipes) {
      for (const ValueId input : recipe->inputs) {
        recipes_read_[static_cast<size_t>(value(input).storage)] = true;
      }
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
  [[nodiscard]] const RecordedValue& value(ValueId id) const { return value_at(graph_, id); }
  ValueTreatment& treatment(ValueId id) { return plan_.values[static_cast<size_t>(id)]; }

  void encode_storage(const RecordedStorage& storage) {
    if (!holds_all_saved(storage)) return;
    const std::optional<SavedMemory> memory = saved_memory(graph_, storage);
    if (!memory) return;
    ValueTreatment& first = treatment(memory->first);
    if (!give_codecs(memory->first, first)) {
      if (overrides_.no_room.count(value(memory->first).storage) != 0) note_full_host(storage);
      return;
    }
    for (const ValueId id : storage.values) {
      if (value(id).slots.empty()) continue;
      treatment(id).source = Source::kEncoded;
      treatment(id).codec = first.codec;
      if (memory->whole) treatment(id).encoded_with = memory->first;
    }
  }

  [[nodiscard]] bool holds_all_saved(const RecordedStorage& storage) {
    return std::all_of(storage.values.begin(), storage.values.end(), [this](ValueId id) {
      return value(id).slots.empty() || treatment(id).source == Source::kHeld;
    });
  }

  /// That its operator cannot be run again is true as well, and was no matter.
  void note_full_host(const RecordedStorage& storage) {
    for (const ValueId id : storage.values) {
      if (!value(id).slots.empty()) treatment(id).reason = KeepReason::kNoRoomOnHost;
    }
  }

  /// False when no codec is left.
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

  /// What keeps nothing but the sign is for autograd alone: a recipe reads values.
  [[nodiscard]] bool serves(ValueId id, const Codec& codec) const {
    const bool signs_only = codec.keeps_sign() && !codec.lossless();
    return !signs_only || !recipes_read_[static_cast<size_t>(value(id).storage)];
  }

  TreatmentPlan& plan_;
  const StepGraph& graph_;
  const Policy& policy_;
  const Overrides& overrides_;
  std::vector<bool> recipes_read_;  ///< by storage
};

}  // namespace

std::optional<SavedMemory> saved_memory(const StepGraph& graph, const RecordedStorage& storage) {
  if (storage.external) return std::nullopt;
  SavedMemory memory;
  for (const ValueId id : storage.values) {
    const std::vector<SlotId>& slots = value_at(graph, id).slots;
    if (slots.empty()) continue;
    const bool shared = memory.first != kNone;
    if (!shared || slots.front() < value_at(graph, memory.first).slots.front()) memory.first = id;
    memory.whole = memory.whole || shared;
  }
  if (memory.first == kNone) return std::nullopt;
  const RecordedValue& first = value_at(graph, memory.first);
  memory.whole = memory.whole || !first.fills_its_memory();
  if (memory.whole && !can_be_one(graph, storage, first.dtype)) return std::nullopt;
  return memory;
}

RecordedValue form_to_encode(const StepGraph& graph, const RecordedStorage& storage,
                             const SavedMemory& memory) {
  RecordedValue form = value_at(graph, memory.first);
  if (memory.whole) {
    form.sizes = {storage.bytes / static_cast<int64_t>(c10::elementSize(form.dtype))};
  }
  return form;
}

void choose_encodings(TreatmentPlan& plan, const Policy& policy, const Overrides& overrides) {
  if (policy.codec) Encoder(plan, policy, overrides).run();
}

}  // namespace noisemark::memopt
