#include "memopt/replay/held_values.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/as_strided.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/replay/bounded_rounding.h"
#include "memopt/replay/value_samples.h"

namespace noisemark::memopt {
namespace {

/// A guard under which looks are neither recorded nor have history.
class LookScope {
  at::DisableRecordFunctionGuard no_callbacks_;
  at::AutoDispatchBelowADInplaceOrView below_autograd_;
};

at::Tensor all_memory_of(const at::Tensor& tensor) {
  const size_t elements = tensor.storage().nbytes() / tensor.element_size();
  return at::as_strided(tensor, {static_cast<int64_t>(elements)}, {1}, 0);
}

/// The most that may be filled, as a part of a form's room: what is fuller is likely to be too full
/// in a later step.
constexpr double kMostFilled = 0.9;
/// Passes look in turn at parts of a larger tensor at whose rounding they look: to read all of it
/// in every pass would take time. The pass that verifies looks at all.
constexpr int64_t kMostLookedAt = 1 << 16;
constexpr int64_t kPart = 1 << 14;
/// Products and activations are many, and the looks at them must not raise the peak.
constexpr int64_t kSmallPart = 1 << 11;

bool takes(const Codec& codec, const at::Tensor& x, const EncodeKey& key) {
  const std::optional<Encoded> encoded = codec.encode(x, key);
  if (!encoded.has_value()) return false;
  const bool lost =
      encoded->answer != nullptr && encoded->answer->wait() == DeviceAnswer::State::kLost;
  return !lost && codec.filled(*encoded) <= kMostFilled && same_bits(codec.decode(*encoded), x);
}

}  // namespace

void set_version(const at::Tensor& tensor, int64_t version) {
  if (version == kNone || tensor._version() == version) return;
  torch::autograd::impl::set_version_counter(tensor,
                                             c10::VariableVersion(static_cast<uint32_t>(version)));
}

HeldValues::HeldValues(const TreatmentPlan& plan, const EncodeKey& key, EncodeBy choice)
    : plan_(plan),
      graph_(*plan.graph),
      key_(key),
      choice_(choice),
      held_(plan.values.size()),
      memory_(plan.values.size()) {}

ValueId HeldValues::bringer_of(ValueId id) const {
  const ValueId bringer = treatment(id).encoded_with;
  return bringer == kNone ? id : bringer;
}

bool HeldValues::fits_memory(ValueId id, const at::Tensor& tensor) const {
  const ValueId bringer = treatment(id).encoded_with;
  if (bringer == kNone) return true;
  const RecordedValue& recorded = graph_.values[static_cast<size_t>(id)];
  const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  const std::optional<WeakMemory>& memory = memory_[static_cast<size_t>(bringer)];
  // A backward pass that is differentiated itself saves what it was given.
  const at::Tensor& given = held_as(id).tensor;
  const int64_t bytes = graph_.storages[static_cast<size_t>(recorded.storage)].bytes;
  return tensor.storage_offset() == recorded.storage_offset &&
         static_cast<int64_t>(storage->nbytes()) == bytes &&
         (!memory.has_value() || memory->_unsafe_get_target() == storage ||
          (given.defined() && given.storage().unsafeGetStorageImpl() == storage));
}

EncodeKey HeldValues::key_of(ValueId id) const {
  EncodeKey key = key_;
  key.storage = static_cast<int64_t>(graph_.values[static_cast<size_t>(id)].storage);
  return key;
}

void HeldValues::bring(ValueId id, const at::Tensor& tensor,
                       std::optional<at::ScalarType> cast_from) {
  const ValueId bringer = treatment(id).encoded_with;
  if (bringer != kNone && bringer != id) return;
  if (bringer == id) {
    memory_[static_cast<size_t>(id)].emplace(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
        tensor.storage().unsafeGetStorageImpl()));
  }
  Held& held = held_[static_cast<size_t>(id)];
  EncodeKey key = key_of(id);
  key.cast_from = cast_from;
  if (treatment(id).codec != nullptr && encode(id, tensor, key, held)) return;
  held.tensor = tensor;
  held.version = tensor._version();
  if (rounds(id) && tensor.is_cpu()) look_at_refused_logits(id);
}

/// Returns true when the tensor need not be held besides.
bool HeldValues::encode(ValueId id, const at::Tensor& tensor, const EncodeKey& key, Held& held) {
  const LookScope silent;
  const bool whole = treatment(id).encoded_with != kNone;
  const at::Tensor memory = whole ? all_memory_of(tensor) : tensor;
  if (tries_codecs()) return find_codec(id, memory, key, held);
  held.codec = treatment(id).codec;
  held.encoded = held.codec->encode(memory, key);
  const bool looks = !held.codec->lossless() && memory.is_cpu();
  if (held.encoded.has_value() && looks && rounds_too_far(id, memory, held)) held.encoded.reset();
  if (!held.encoded.has_value()) {
    refused_.push_back({id, held.codec->form()});
    return false;
  }
  if (held.encoded->answer != nullptr) {
    pending_.push_back(id);
    return false;
  }
  if (awaits_partner_ == bringer_of(id)) undecided_[id] = {tensor, tensor._version()};
  return true;
}

bool HeldValues::find_codec(ValueId id, const at::Tensor& tensor, const EncodeKey& key,
                            Held& held) {
  std::vector<const Codec*> codecs = treatment(id).next_codecs;
  codecs.insert(codecs.begin(), treatment(id).codec);
  for (const Codec* codec : codecs) {
    std::optional<Encoded> encoded = codec->encode(tensor, key);
    if (!encoded.has_value() ||
        (encoded->answer != nullptr && encoded->answer->wait() == DeviceAnswer::State::kLost)) {
      refused_.push_back({id, codec->form()});
      continue;
    }
    held.codec = codec;
    held.encoded = std::move(encoded);
    if (codec->lossless()) return true;
    // A codec that rounds is not compared; what is made from its values is, with exact inputs.
    const bool spoils = rounds_too_far(id, tensor, held);
    if (!spoils && choice_ == EncodeBy::kFirstToTake) return true;
    held.encoded.reset();
    if (!spoils) return false;
    refused_.push_back({id, codec->form()});
  }
  return false;
}

bool HeldValues::rounds(ValueId id) const {
  if (id == kNone) return false;
  const Codec* codec = treatment(bringer_of(id)).codec;
  return codec != nullptr && !codec->lossless();
}

void HeldValues::look_at_logits(SlotId slot, const at::Tensor& saved) {
  if (saved.is_cpu() && !rounds(graph_.slots[static_cast<size_t>(slot)].value)) {
    look_at_exact_logits(slot, saved);
  }
}

/// The codec refused them, or a look at what another operator saved of their memory.
void HeldValues::look_at_refused_logits(ValueId id) {
  for (const ValueId value :
       graph_.storages[static_cast<size_t>(graph_.value(id).storage)].values) {
    if (bringer_of(value) != bringer_of(id)) continue;
    for (const SlotId slot : graph_.value(value).slots) {
      look_at_exact_logits(slot, part_of(held_as(id).tensor, value));
    }
  }
}

/// A query or key is held as it was saved, beside which its partner may be rounded.
void HeldValues::look_at_exact_logits(SlotId slot, const at::Tensor& saved) {
  const RecordedSlot& recorded = graph_.slots[static_cast<size_t>(slot)];
  if (recorded.saved_by == kNone) return;
  const RecordedOperator& op = graph_.operators[static_cast<size_t>(recorded.saved_by)];
  const ValueId id = recorded.value;
  if (!makes_logits_again(op) || !is_of_logits(op, id) || largest_rows_.contains(id)) return;
  const ValueId given = op.arguments.at(2).values.front();
  const ValueId other = id == logits_key(op) ? logits_query(op) : logits_key(op);
  if (!rounds(given) && !rounds(other) && !rounds(op.results.front())) return;
  const LookScope silent;
  const bool all = tries_codecs() || saved.numel() <= kMostLookedAt;
  const at::Tensor part = all ? saved : sample_for(op, saved, kPart, key_.step);
  const double row = largest_row(part);
  largest_rows_[id] = LargestRow{row, 0};
  const auto rounded = largest_rows_.find(other);
  if (rounded == largest_rows_.end() || rounded->second.error.value_or(0) == 0) return;
  const double added =
      logits_deviation(op, graph_.value(id).sizes.back(), *rounded->second.error, row);
  settle_logits(other, may_round_beside_logits(op) && added <= kMostOfALogit);
}

/// A query that was rounded before its key was known has waited for this as it was saved.
void HeldValues::settle_logits(ValueId id, bool within) {
  if (!within) refuse_rounding(id);
  if (awaits_partner_ == bringer_of(id)) awaits_partner_ = kNone;  // both are in one memory
  const auto waiting = undecided_.find(bringer_of(id));
  if (waiting == undecided_.end()) return;
  Held& held = held_[static_cast<size_t>(waiting->first)];
  if (!within && held.encoded.has_value()) {
    held.encoded.reset();
    held.tensor = waiting->second.tensor;
    held.version = waiting->second.version;
  }
  undecided_.erase(waiting);
}

/// Returns whether the encoding rounds any of the memory's saved values too far (Look).
bool HeldValues::rounds_too_far(ValueId id, const at::Tensor& memory, const Held& held) {
  at::Tensor decoded;
  awaits_partner_ = kNone;
  for (const ValueId other :
       graph_.storages[static_cast<size_t>(graph_.value(id).storage)].values) {
    for (const SlotId slot : graph_.value(other).slots) {
      const OperatorId saver = graph_.slots[static_cast<size_t>(slot)].saved_by;
      if (saver == kNone) continue;
      const RecordedOperator& op = graph_.operators[static_cast<size_t>(saver)];
      const Look look = look_of(graph_, saver, other);
      const bool asked = is_of_every_pass(look) || tries_codecs() || plan_.looks_again;
      if (look == Look::kNone || !asked) continue;
      if (look == Look::kLogits && !is_of_logits(op, other)) {
        if (!may_round_beside_logits(op)) return true;
        continue;
      }
      const auto [x, rounded] = looked_at(look, op, memory, other, held, decoded);
      if (!x.defined()) continue;
      const bool within = look == Look::kLogits ? rounds_within_logits(op, other, x, rounded)
                                                : serves(look, op, x, rounded);
      if (!within) return true;
    }
  }
  return false;
}

/// The saved value and what it is rounded to, or a part of both; undefined where the codec takes no
/// part of it. `decoded`: all of the memory, once it was decoded.
std::pair<at::Tensor, at::Tensor> HeldValues::looked_at(Look look, const RecordedOperator& saver,
                                                        const at::Tensor& memory, ValueId id,
                                                        const Held& held,
                                                        at::Tensor& decoded) const {
  const at::Tensor part = part_of(memory, id);
  const bool always = is_of_every_pass(look);
  if (tries_codecs() || memory.numel() <= (always ? kMostLookedAt : kSmallPart)) {
    if (!decoded.defined()) decoded = held.codec->decode(*held.encoded);
    return {part, part_of(decoded, id)};
  }
  const at::Tensor sample = sample_for(saver, part, always ? kPart : kSmallPart, key_.step);
  EncodeKey key = key_;
  key.storage = EncodeKey::kNoStorage;
  const std::optional<Encoded> encoded = held.codec->encode(sample, key);
  if (!encoded.has_value()) return {};
  return {sample, held.codec->decode(*encoded)};
}

/// Returns whether the other values and the result of an attention may be rounded, as far as query
/// and key are known, which come first.
bool HeldValues::may_round_beside_logits(const RecordedOperator& attention) const {
  const std::optional<LargestRow> q = known_row(attention, logits_query(attention));
  const std::optional<LargestRow> k = known_row(attention, logits_key(attention));
  if (!q || !k) return true;
  const int64_t width = graph_.value(logits_query(attention)).sizes.back();
  return logits_deviation(attention, width, q->value, k->value) <= kMostLogits;
}

/// Returns whether a query or key may be rounded, as far as the other is known. Where it may not,
/// neither is.
bool HeldValues::rounds_within_logits(const RecordedOperator& attention, ValueId id,
                                      const at::Tensor& x, const at::Tensor& rounded) {
  const double error = largest_row(rounded.to(at::kFloat) - x.to(at::kFloat));
  const LargestRow row{largest_row(x), error};
  largest_rows_[id] = row;
  const ValueId other_id =
      id == logits_key(attention) ? logits_query(attention) : logits_key(attention);
  const std::optional<LargestRow> other = known_row(attention, other_id);
  if (!other) {
    awaits_partner_ = bringer_of(id);
    return true;
  }
  const int64_t width = graph_.value(id).sizes.back();
  const double added = logits_deviation(attention, width, error, other->value);
  // The two errors have nothing to do with each other; one that is not known is taken to be alike.
  const double by_other =
      other->error ? logits_deviation(attention, width, row.value, *other->error) : added;
  const bool within =
      may_round_beside_logits(attention) && std::hypot(added, by_other) <= kMostOfALogit;
  settle_logits(other_id, within);
  return within;
}

/// The value in what was brought for it, or in what that was decoded to.
at::Tensor HeldValues::part_of(const at::Tensor& memory, ValueId id) const {
  return treatment(id).encoded_with == kNone ? memory : view_of(memory, id);
}

/// Returns that of a query or key as far as it was brought; else empty.
std::optional<HeldValues::LargestRow> HeldValues::known_row(const RecordedOperator& attention,
                                                            ValueId id) const {
  if (const auto row = largest_rows_.find(id); row != largest_rows_.end()) return row->second;
  const at::Tensor& memory = held_as(id).tensor;
  if (!memory.defined()) return std::nullopt;
  const at::Tensor part = part_of(memory, id);
  const int64_t most = tries_codecs() || part.numel() <= kMostLookedAt ? part.numel() : kPart;
  return LargestRow{largest_row(sample_for(attention, part, most, key_.step))};
}

std::vector<const Codec*> HeldValues::rounding_codecs(ValueId id) const {
  const ValueTreatment& bringer = treatment(bringer_of(id));
  std::vector<const Codec*> codecs = bringer.next_codecs;
  codecs.push_back(bringer.codec);
  std::erase_if(codecs, [](const Codec* codec) { return codec == nullptr || codec->lossless(); });
  return codecs;
}

void HeldValues::refuse_rounding(ValueId id) {
  for (const Codec* codec : rounding_codecs(id)) {
    refused_.push_back({bringer_of(id), codec->form()});
  }
}

bool HeldValues::serves_rounded(SlotId slot, const at::Tensor& saved, const at::Tensor& rounded) {
  const RecordedSlot& recorded = graph_.slots[static_cast<size_t>(slot)];
  if (recorded.saved_by == kNone) return true;
  const LookScope silent;
  const RecordedOperator& op = graph_.operators[static_cast<size_t>(recorded.saved_by)];
  const Look look = look_of(graph_, recorded.saved_by, recorded.value);
  if (look == Look::kLogits) {
    return is_of_logits(op, recorded.value)
               ? rounds_within_logits(op, recorded.value, saved, rounded)
               : may_round_beside_logits(op);
  }
  const bool by_size = look == Look::kSmall || saved.is_complex();
  if (by_size && !rounds_within_size(saved, rounded)) return false;
  return serves(look, op, saved, rounded);
}

void HeldValues::try_codecs(ValueId id, const at::Tensor& tensor) {
  const auto trial = plan_.trials.find(id);
  if (trial == plan_.trials.end()) return;
  const EncodeKey key = key_of(id);
  const LookScope silent;
  const at::Tensor x = trial->second.whole ? all_memory_of(tensor) : tensor;
  std::set<std::string_view> taken;  // names of which the smallest room of several suffices
  for (const std::shared_ptr<const Codec>& codec : trial->second.codecs) {
    if (taken.count(codec->name()) != 0) continue;
    if (takes(*codec, x, key)) {
      taken.insert(codec->name());
    } else {
      refused_.push_back({id, codec->form()});
    }
  }
}

/// Lets go of tensors whose encoding was found to hold, and of encodings that were lost.
void HeldValues::settle(ValueId id, DeviceAnswer::State answer) {
  Held& held = held_[static_cast<size_t>(id)];
  if (answer == DeviceAnswer::State::kPending) return;
  if (answer == DeviceAnswer::State::kHolds) {
    held.tensor = at::Tensor();
    return;
  }
  held.encoded.reset();
  refused_.push_back({id, held.codec->form()});
}

// The device answers in the order in which it was asked: behind one that is pending none is ready.
// So a look costs one question, however many there are.
void HeldValues::settle_pending() {
  for (; !pending_.empty(); pending_.pop_front()) {
    const ValueId id = pending_.front();
    const Held& held = held_[static_cast<size_t>(id)];
    if (!held.pending()) continue;
    const DeviceAnswer::State answer = held.encoded->answer->poll();
    if (answer == DeviceAnswer::State::kPending) return;
    settle(id, answer);
  }
}

AwaitedAnswer HeldValues::awaited_of(ValueId id) const {
  const Held& held = held_[static_cast<size_t>(id)];
  return {{id, held.codec->form()}, held.encoded->answer};
}

std::vector<AwaitedAnswer> HeldValues::awaited() const {
  std::vector<AwaitedAnswer> awaited = unheard_;
  for (const ValueId id : pending_) {
    if (held_[static_cast<size_t>(id)].pending()) awaited.push_back(awaited_of(id));
  }
  return awaited;
}

void HeldValues::let_go(ValueId id) {
  Held& held = held_[static_cast<size_t>(id)];
  if (held.pending()) unheard_.push_back(awaited_of(id));
  held = {};
}

at::Tensor HeldValues::get(ValueId id) {
  const ValueId bringer = bringer_of(id);
  Held& held = held_[static_cast<size_t>(bringer)];
  if (held.pending()) {
    const bool same_bits = held.codec->lossless() && held.tensor._version() == held.version;
    DeviceAnswer& answer = *held.encoded->answer;
    settle(bringer, same_bits ? answer.poll() : answer.wait());
  }
  const bool whole = treatment(id).encoded_with != kNone;
  if (held.tensor.defined() || !held.encoded.has_value()) {
    const at::Tensor& tensor = unchanged(bringer, held);
    return whole ? view_of(tensor, id) : tensor;
  }
  const at::Tensor memory = decoded(bringer, held);
  // A backward pass that is differentiated itself saves what it is given, so the other form would
  // be held besides.
  if (c10::GradMode::is_enabled()) {
    const std::vector<SlotId>& slots = graph_.values[static_cast<size_t>(bringer)].slots;
    if (!slots.empty()) {
      set_version(memory, graph_.slots[static_cast<size_t>(slots.front())].version);
    }
    held.tensor = memory;
    held.version = memory._version();
    held.encoded.reset();
  }
  return whole ? view_of(memory, id) : memory;
}

/// An encoding that several values share is decoded once; that of one value is its reader's to
/// keep.
at::Tensor HeldValues::decoded(ValueId id, Held& held) {
  held.fetched = true;
  if (treatment(id).encoded_with == kNone) return held.codec->decode(*held.encoded);
  if (!held.decoded.defined()) {
    held.decoded = held.codec->decode(*held.encoded);
    held.decoded_version = held.decoded._version();
  }
  // Each reader gets its part of the same memory, and may write it.
  if (held.decoded._version() != held.decoded_version) {
    refuse_changed(held.decoded.sizes(), {held.decoded_version, held.decoded._version()},
                   graph_.words_for(id), graph_.saver_of(treatment(id).supplied_by));
  }
  return held.decoded;
}

const at::Tensor& HeldValues::unchanged(ValueId id, const Held& held) const {
  TORCH_CHECK(held.tensor.defined(), "value ", id, " is needed after it was released");
  if (held.tensor._version() != held.version) {
    refuse_changed(held.tensor.sizes(), {held.version, held.tensor._version()},
                   graph_.words_for(id), graph_.saver_of(treatment(id).supplied_by));
  }
  return held.tensor;
}

at::Tensor HeldValues::view_of(const at::Tensor& memory, ValueId id) const {
  const RecordedValue& value = graph_.values[static_cast<size_t>(id)];
  const at::Tensor view = at::as_strided(memory, value.sizes, value.strides, value.storage_offset);
  // A kernel makes a view with a count of its own.
  torch::autograd::impl::set_version_counter(view, torch::autograd::impl::version_counter(memory));
  return view;
}

void HeldValues::finish_encoding() {
  undecided_.clear();
  for (const Held& held : held_) {
    if (held.encoded.has_value()) held.codec->finish_encoding();
  }
}

void HeldValues::prefetch(ValueId id) {
  Held& held = held_[static_cast<size_t>(bringer_of(id))];
  if (!held.encoded.has_value() || held.pending() || held.fetched) return;
  held.fetched = true;
  held.codec->prefetch(*held.encoded);
}

std::vector<at::Tensor> HeldValues::tensors() const {
  std::vector<at::Tensor> tensors;
  for (const Held& held : held_) {
    if (held.tensor.defined()) tensors.push_back(held.tensor);
  }
  return tensors;
}

}  // namespace noisemark::memopt
