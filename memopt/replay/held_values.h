#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memopt/replay/bounded_rounding.h"
#include "memopt/treatment/treatment.h"

namespace noisemark::memopt {

/// A codec did not take a value.
struct Refusal {
  ValueId value = kNone;
  std::string form;  ///< Codec::form()
};

/// An encoding of which the device had not said whether it holds when the pass was asked.
struct AwaitedAnswer {
  Refusal if_lost;
  std::shared_ptr<DeviceAnswer> answer;
};

/// Makes new memory count as written so often; kNone leaves it as it is.
void set_version(const at::Tensor& tensor, int64_t version);

/// Says which codec encodes a value.
enum class EncodeBy {
  kPlanned,
  kFirstToTake,                ///< the first that takes it, however long the device needs to say so
  kFirstToTakeUnlessItRounds,  ///< takes the first too, but what that would round is held as it was
                               ///< saved
};

/// The values that one forward pass holds for its backward beyond autograd's own slots, as it was
/// saved or encoded. It is not thread-safe.
class HeldValues {
 public:
  HeldValues(const TreatmentPlan& plan, const EncodeKey& key, EncodeBy choice);

  /// Returns whether the tensor lies in memory as the one recorded for `id` did, where that
  /// matters: values that are encoded as one must be views of the same memory.
  [[nodiscard]] bool fits_memory(ValueId id, const at::Tensor& tensor) const;
  /// The tensor that the first slot of `id` saves, without history. `cast_from`: as in EncodeKey.
  void bring(ValueId id, const at::Tensor& tensor,
             std::optional<at::ScalarType> cast_from = std::nullopt);
  /// Tries the codecs of the value's trial on what is saved of it, in a pass that verifies. Holds
  /// nothing of that. A codec that gives other bits is among those that refused, and so is one
  /// whose room is nearly full.
  void try_codecs(ValueId id, const at::Tensor& tensor);
  /// Looks at a query or key that is not rounded, beside which others may be. On a CPU.
  void look_at_logits(SlotId slot, const at::Tensor& saved);
  /// Returns whether `rounded` serves in the place of `saved`, of which it was made again, in the
  /// derivative of the operator that saved it.
  [[nodiscard]] bool serves_rounded(SlotId slot, const at::Tensor& saved,
                                    const at::Tensor& rounded);
  /// Returns whether a codec that rounds may encode the value.
  [[nodiscard]] bool may_round(ValueId id) const { return !rounding_codecs(id).empty(); }
  /// No codec that rounds the value is for it.
  void refuse_rounding(ValueId id);
  /// Lets go of the tensors whose encoding the device has found to hold, in the order in which they
  /// were brought as far as it has answered. Never waits.
  void settle_pending();
  [[nodiscard]] bool is_encoded(ValueId id) const { return held_as(id).encoded.has_value(); }
  /// Decodes where needed. Gives the tensor itself as long as its encoding may be lost, and waits
  /// for the device only where those bits are others (a codec that rounds, a change in place).
  /// Throws c10::Error for a tensor that was changed in place since.
  [[nodiscard]] at::Tensor get(ValueId id);
  void let_go(ValueId id);
  /// The next reader of what shares the value's encoding decodes it again.
  void let_go_decoded(ValueId id) { held_[static_cast<size_t>(id)].decoded = at::Tensor(); }

  /// The forward pass is over.
  void finish_encoding();
  /// The value will soon be asked for.
  void prefetch(ValueId id);

  /// An entry for each time that a codec did not take a value, as far as is known.
  [[nodiscard]] const std::vector<Refusal>& refused() const { return refused_; }
  /// The answers that may still become refusals, also of values that were let go.
  [[nodiscard]] std::vector<AwaitedAnswer> awaited() const;
  [[nodiscard]] std::vector<at::Tensor> tensors() const;

 private:
  struct Held {
    at::Tensor tensor;
    int64_t version = 0;
    std::optional<Encoded> encoded;
    const Codec* codec = nullptr;  ///< codec of `encoded`
    at::Tensor decoded;            ///< all of the memory that several values share
    int64_t decoded_version = 0;
    bool fetched = false;  ///< it was asked for, or is about to be

    /// The device has not yet been heard to say that the encoding holds.
    [[nodiscard]] bool pending() const { return encoded.has_value() && tensor.defined(); }
  };
  /// The largest norm of a row of a query or key.
  struct LargestRow {
    double value = 0;
    std::optional<double> error = {};  ///< largest norm of a row's rounding error; empty: not known
  };

  [[nodiscard]] const ValueTreatment& treatment(ValueId id) const {
    return plan_.values[static_cast<size_t>(id)];
  }
  /// The value in whose name `id` is held.
  [[nodiscard]] ValueId bringer_of(ValueId id) const;
  [[nodiscard]] const Held& held_as(ValueId id) const {
    return held_[static_cast<size_t>(bringer_of(id))];
  }
  [[nodiscard]] EncodeKey key_of(ValueId id) const;
  bool encode(ValueId id, const at::Tensor& tensor, const EncodeKey& key, Held& held);
  bool find_codec(ValueId id, const at::Tensor& tensor, const EncodeKey& key, Held& held);
  [[nodiscard]] bool rounds_too_far(ValueId id, const at::Tensor& memory, const Held& held);
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> looked_at(Look look,
                                                            const RecordedOperator& saver,
                                                            const at::Tensor& memory, ValueId id,
                                                            const Held& held,
                                                            at::Tensor& decoded) const;
  [[nodiscard]] bool tries_codecs() const { return choice_ != EncodeBy::kPlanned; }
  [[nodiscard]] bool rounds(ValueId id) const;
  [[nodiscard]] std::vector<const Codec*> rounding_codecs(ValueId id) const;
  [[nodiscard]] bool may_round_beside_logits(const RecordedOperator& attention) const;
  [[nodiscard]] bool rounds_within_logits(const RecordedOperator& attention, ValueId id,
                                          const at::Tensor& x, const at::Tensor& rounded);
  [[nodiscard]] at::Tensor part_of(const at::Tensor& memory, ValueId id) const;
  [[nodiscard]] std::optional<LargestRow> known_row(const RecordedOperator& attention,
                                                    ValueId id) const;
  void look_at_refused_logits(ValueId id);
  void look_at_exact_logits(SlotId slot, const at::Tensor& saved);
  void settle_logits(ValueId id, bool within);
  void settle(ValueId id, DeviceAnswer::State answer);
  [[nodiscard]] AwaitedAnswer awaited_of(ValueId id) const;
  at::Tensor decoded(ValueId id, Held& held);
  [[nodiscard]] const at::Tensor& unchanged(ValueId id, const Held& held) const;
  [[nodiscard]] at::Tensor view_of(const at::Tensor& memory, ValueId id) const;

  using WeakMemory = c10::weak_intrusive_ptr<c10::StorageImpl>;

  const TreatmentPlan& plan_;
  const StepGraph& graph_;
  const EncodeKey key_;
  const EncodeBy choice_;
  std::vector<Held> held_;
  /// The storage of values that are encoded as one, whose name stays its own though its memory
  /// goes.
  std::vector<std::optional<WeakMemory>> memory_;
  std::map<ValueId, LargestRow> largest_rows_;  ///< row of each query or key that was looked at
  struct AsSaved {
    at::Tensor tensor;
    int64_t version = 0;
  };
  /// Queries and keys that are encoded: their partners are not known yet.
  std::map<ValueId, AsSaved> undecided_;
  ValueId awaits_partner_ = kNone;  ///< the last that was looked at, where it is one
  std::vector<Refusal> refused_;
  std::deque<ValueId> pending_;  ///< encoded, and not yet heard to hold; in the device's order
  std::vector<AwaitedAnswer> unheard_;  ///< answers for values let go before
};

}  // namespace noisemark::memopt
