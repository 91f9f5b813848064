#include "memopt/plan/encodings.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace noisemark::memopt {
namespace {

class Encoder {
 public:
  Encoder(TreatmentPlan& plan, const Policy& policy, const Overrides& overrides)
      : plan_(plan), graph_(*plan.graph), policy_(policy), overrides_(overrides) {
    for (const auto& recipe : plan_.recipes) {
      for (const ValueId input : recipe->inputs) recipes_read_.insert(value(input).storage);
    }
  }

  void run() {
    for (const RecordedStorage& storage : graph_.storages) {
      if (!storage.external) encode_storage(storage);
    }
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      if (treatment(id).source != Source::kSliced) continue;
      give_codecs(id, plan_.values[v]);
    }
  }

 private:
  [[nodiscard]] const RecordedValue& value(ValueId id) const {
    return graph_.values[static_cast<size_t>(id)];
  }
  ValueTreatment& treatment(ValueId id) { return plan_.values[static_cast<size_t>(id)]; }

  void encode_storage(const RecordedStorage& storage) {
    std::vector<ValueId> saved;
    for (const ValueId id : storage.values) {
      if (value(id).slots.empty()) continue;
      if (treatment(id).source != Source::kHeld) return;
      saved.push_back(id);
    }
    if (saved.empty()) return;
    const ValueId first = *std::min_element(saved.begin(), saved.end(), [&](ValueId a, ValueId b) {
      return treatment(a).supplied_by < treatment(b).supplied_by;
    });
    const bool whole = saved.size() > 1 || !value(first).fills_its_memory();
    if (whole && !can_be_one(storage, saved)) return;
    if (!give_codecs(first, treatment(first))) return note_full_host(saved);
    for (const ValueId id : saved) {
      treatment(id).source = Source::kEncoded;
      treatment(id).codec = treatment(first).codec;
      if (whole) treatment(id).encoded_with = first;
    }
  }

  /// That its operator cannot be run again is true as well, and was no matter.
  void note_full_host(const std::vector<ValueId>& saved) {
    if (overrides_.no_room.count(value(saved.front()).storage) == 0) return;
    for (const ValueId id : saved) treatment(id).reason = KeepReason::kNoRoomOnHost;
  }

  /// All of the memory is elements of one type, and the same whenever one of the values is saved.
  [[nodiscard]] bool can_be_one(const RecordedStorage& storage,
                                const std::vector<ValueId>& saved) const {
    const at::ScalarType type = value(saved.front()).dtype;
    const bool one_type = std::all_of(saved.begin(), saved.end(),
                                      [&](ValueId id) { return value(id).dtype == type; });
    return one_type && !storage.written_in_place &&
           storage.bytes % static_cast<int64_t>(c10::elementSize(type)) == 0;
  }

  /// False when no codec is left.
  bool give_codecs(ValueId id, ValueTreatment& to) {
    const auto refused = overrides_.refusals.find(id);
    int skip = refused == overrides_.refusals.end() ? 0 : refused->second;
    if (skip == Overrides::kEveryCodec) return false;
    std::vector<const Codec*> codecs;
    for (int attempt = 0;; ++attempt) {
      std::unique_ptr<Codec> codec = policy_.codec(graph_, id, attempt);
      if (codec == nullptr) break;
      if (!serves(id, *codec) || skip-- > 0) continue;
      codecs.push_back(codec.get());
      plan_.codecs.push_back(std::move(codec));
    }
    if (codecs.empty()) return false;
    to.codec = codecs.front();
    to.next_codecs.assign(codecs.begin() + 1, codecs.end());
    return true;
  }

  /// What keeps nothing but the sign is for autograd alone: a recipe reads values.
  [[nodiscard]] bool serves(ValueId id, const Codec& codec) const {
    const bool signs_only = codec.keeps_sign() && !codec.lossless();
    return !signs_only || recipes_read_.count(value(id).storage) == 0;
  }

  TreatmentPlan& plan_;
  const StepGraph& graph_;
  const Policy& policy_;
  const Overrides& overrides_;
  std::set<StorageId> recipes_read_;
};

}  // namespace

void choose_encodings(TreatmentPlan& plan, const Policy& policy, const Overrides& overrides) {
  if (policy.codec) Encoder(plan, policy, overrides).run();
}

}  // namespace noisemark::memopt
