#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <typeindex>
#include <unordered_map>
#include <utility>
#include <vector>

/// The record of one forward pass, as far as it matters for what backward needs: operators, the
/// values that they read and made, the storages that hold the values, and the slots, which are the
/// tensors that autograd saved, in the order in which it saved them. That order is the same in
/// every step of a model without data-dependent control flow, so a slot found in one step names the
/// same tensor in the next.
namespace noisemark::memopt {

/// No operator, value and so on; also "no index" where indices are plain numbers.
inline constexpr int32_t kNone = -1;

/// An index into a vector of StepGraph or TreatmentPlan. An index into another vector does not
/// convert to it. A number does, and static_cast gives the number back.
template <typename Of>
class Id {
 public:
  constexpr Id() = default;
  template <std::integral Number>
  constexpr Id(Number number) : number_(static_cast<int32_t>(number)) {}
  template <std::integral Number>
  constexpr explicit operator Number() const {
    return static_cast<Number>(number_);
  }
  constexpr Id& operator++() {
    ++number_;
    return *this;
  }
  friend constexpr bool operator==(Id a, Id b) = default;
  friend constexpr auto operator<=>(Id a, Id b) = default;
  friend std::ostream& operator<<(std::ostream& to, Id id) { return to << id.number_; }

 private:
  int32_t number_ = kNone;
};

struct RecordedOperator;
struct RecordedValue;
struct RecordedStorage;
struct RecordedSlot;
struct Recipe;
struct Segment;  // names only a kind of index: a segment is its name
using OperatorId = Id<RecordedOperator>;
using ValueId = Id<RecordedValue>;
using StorageId = Id<RecordedStorage>;
using SlotId = Id<RecordedSlot>;
using SegmentId = Id<Segment>;  ///< index of StepGraph::segments
using RecipeId = Id<Recipe>;    ///< index of TreatmentPlan::recipes

/// An argument of an operator: a constant, a tensor, or a list of tensors.
struct Argument {
  enum class Kind : uint8_t { kConstant, kTensor, kTensorList };
  Kind kind = Kind::kConstant;
  c10::IValue constant;         ///< set for kConstant
  std::vector<ValueId> values;  ///< kNone: an undefined tensor
};

/// A call of an operator below autocast and not below autograd: what makes a value, and what can
/// be called again to recompute it.
struct RecordedOperator {
  c10::OperatorHandle handle;
  std::string name;  ///< "aten::silu"
  std::vector<Argument> arguments;
  std::vector<ValueId> results;  ///< kNone: undefined, or known before the call
  SegmentId segment = kNone;
  int64_t cost_ns = 0;         ///< time on the device (operator_times.h), inner calls included, or
                               ///< 0
  int32_t overwrites = kNone;  ///< index of the argument that its result replaces ("add_")
  bool repeatable = true;      ///< is false where it draws numbers that nobody saved, writes in a
                               ///< way that is not understood, or takes an argument that cannot be
                               ///< written down
  bool in_scope = false;       ///< a SegmentScope said which segment
  int64_t scratch_bytes = 0;   ///< the most it needs beside its results as it runs; 0: not read
};

/// The way in which elements follow from memory, beside sizes and strides. Two tensors of one
/// memory can differ in it alone.
enum class MemoryForm : uint8_t {
  kPlain,
  kConjugate,          ///< LibTorch conjugates lazily, when somebody reads
  kNegative,           ///< negates too
  kNegativeConjugate,  ///< both
  kOther,              ///< sparse, quantized, nested, named, a subclass's, or wrapped
};
[[nodiscard]] MemoryForm form_of(const at::Tensor& tensor);

/// The elements of its memory that a tensor reads.
struct ElementsRead {
  at::IntArrayRef sizes;
  at::IntArrayRef strides;
  int64_t offset = 0;
  at::ScalarType dtype = at::kFloat;
};
/// Returns false only where two tensors of one memory have no element in common, as two gates that
/// were cut out of one result.
[[nodiscard]] bool may_overlap(const ElementsRead& a, const ElementsRead& b);

/// One tensor of the step. What an operator writes in place becomes another value of the same
/// storage, where nobody reads what was written through another tensor.
struct RecordedValue {
  enum class Origin : uint8_t {
    kComputed,  ///< is computed by `producer`
    kModel,     ///< a parameter or buffer
    kForeign,   ///< came from outside: the batch, or an operator that was not seen
  };
  Origin origin = Origin::kForeign;
  OperatorId producer = kNone;
  int32_t result_index = 0;  ///< index among the producer's results
  bool has_history = false;  ///< autograd knows how it was made, so a change of path shows
  StorageId storage = kNone;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t storage_offset = 0;
  at::ScalarType dtype = at::kFloat;
  MemoryForm form = MemoryForm::kPlain;
  /// Far smaller than what it was computed from: statistics of a norm, the log-sum-exp of
  /// attention. Keeping it costs nothing and saves the reduction.
  bool small_result = false;
  at::Tensor model_tensor;  ///< set for kModel
  std::string model_name;   ///< a parameter's name in the state dict; else empty
  std::vector<OperatorId> readers;
  std::vector<SlotId> slots;  ///< slots that saved exactly this tensor

  [[nodiscard]] int64_t bytes() const;
  /// Its elements are a range of memory without gaps or overlaps.
  [[nodiscard]] bool fills_its_memory() const;
  [[nodiscard]] ElementsRead elements_read() const {
    return {sizes, strides, storage_offset, dtype};
  }
};

/// The parts of operators' calls (name, arguments, writes), in digests (history.h).
using CallParts = std::vector<uint64_t>;
/// It stands where the second recorded pass had another part, which then tells nothing.
inline constexpr uint64_t kVaries = 0;
/// Returns whether all parts are the recorded ones, but those that vary.
[[nodiscard]] bool are_the_recorded(const CallParts& parts, const CallParts& recorded);

/// A block of memory; its views share it.
struct RecordedStorage {
  int64_t bytes = 0;
  std::vector<ValueId> values;  ///< values in the order of their appearance; the first made the
                                ///< storage
  bool written_in_place = false;
  bool written_in_parts = false;  ///< a part of it was written after another part had been saved
  CallParts writes;               ///< all writes without autograd
  bool external = false;    ///< the model's or from outside: nobody's to drop, and not counted
  bool kept_as_is = false;  ///< a cast of a parameter, or read in a form that is not plain: what is
                            ///< saved of it stays as it was saved
  bool exact = false;       ///< to round it could spoil a gradient (exact_storages.h)
  /// The operator after which the program held no reference to it any more, whatever autograd
  /// saved; kNone: it still did when forward ended.
  OperatorId gone_at_operator = kNone;
  /// The number of slots that backward had asked for when the program held no reference to it any
  /// more, if it held one longer than forward; kNone: it still did before the last.
  int32_t gone_at_unpack = kNone;
};

/// The figures of the device's allocator at one moment; negative: it was not asked.
struct MemoryReading {
  int64_t live_bytes = kNone;
  int64_t high_bytes = kNone;  ///< the most since the reading before
};

/// The place that a tensor came from, or that an autograd node sends its gradient to.
struct RecordedEdge {
  static constexpr int32_t kLeaf = -2;     ///< a tensor that was not computed, or its cast
  static constexpr int32_t kEarlier = -3;  ///< something computed before the pass
  int32_t node = kNone;                    ///< index into StepGraph::nodes, or one of the above
  uint32_t output = 0;                     ///< index among the node's outputs
  ValueId leaf = kNone;                    ///< kLeaf: its value, if it is the model's
  bool operator==(const RecordedEdge&) const = default;
};

/// An operator as autograd knows it.
struct RecordedNode {
  std::type_index type = typeid(void);
  std::vector<RecordedEdge> inputs;
  std::vector<double> numbers;          ///< arguments (autograd/nodes.h)
  std::vector<bool> numbers_vary = {};  ///< they were others in the second recorded pass; empty:
                                        ///< none was
  CallParts call = {};                  ///< the operator's call; empty: not seen
};

/// A tensor that autograd saved.
struct RecordedSlot {
  ValueId value = kNone;
  MemoryForm form = MemoryForm::kPlain;  ///< names may be given to a value after it was made
  OperatorId saved_by = kNone;           ///< the operator whose backward needs it
  int32_t unpack_order = kNone;    ///< number of the unpacking that first asked for it, counted
                                   ///< over the step
  int32_t gone_at_unpack = kNone;  ///< slots asked for when it was let go, or when the record
                                   ///< ended; kNone: it went with its node
  std::type_index node = typeid(void);  ///< type of the autograd node that made the tensor
  MemoryReading at_save;
  MemoryReading at_unpack;  ///< the first time
  RecordedEdge came_from;
  size_t nodes = 0;     ///< number of StepGraph::nodes known when it was saved
  int64_t version = 0;  ///< its memory's version when saved; kNone: not the same in every pass
  CallParts writes;     ///< those to its memory without autograd, until then
  CallParts call;       ///< the call of the operator that saved it; empty: not seen
  bool exact = false;   ///< to round it could spoil a gradient (exact_storages.h)
  bool differentiated = false;  ///< backward asked for it while it was differentiated itself
};

struct StepGraph {
  std::vector<RecordedOperator> operators;  ///< operators in the order in which they ended
  std::vector<RecordedValue> values;
  std::vector<RecordedStorage> storages;
  std::vector<RecordedSlot> slots;
  std::vector<RecordedNode> nodes;    ///< origins of slots, in the order in which they were met
  std::vector<std::string> segments;  ///< names in the order of their first operator
  int64_t begin_gradient_bytes = 0;   ///< those of the parameters' gradients when the pass began
  MemoryReading at_end;               ///< reading after the pass and its backward
  bool partly_seen = false;           ///< another scope of the pass may have had operators
  bool retained = false;              ///< backward asked twice for a slot
  bool backward_ran = false;          ///< a backward ran that was not differentiated itself

  [[nodiscard]] const RecordedValue& value(ValueId id) const {
    return values[static_cast<size_t>(id)];
  }
  [[nodiscard]] const RecordedOperator* producer_of(ValueId value) const;
  /// Returns whether the operator was the first to save the value: that is then there before
  /// anything that is made from the operator's other results is saved. It is false of kNone.
  [[nodiscard]] bool is_saved_by(ValueId value, OperatorId op) const;
  /// The device that the model is on; empty without a model.
  [[nodiscard]] std::optional<c10::Device> model_device() const;
  /// A slot holds the storage, which is neither the model's nor the batch's.
  [[nodiscard]] bool holds_saved(const RecordedStorage& storage) const;
  /// Bytes of the storages that slots hold, each once; the model's and the batch's left out.
  [[nodiscard]] int64_t saved_bytes() const;
  /// Names a value in messages: "the result of aten::silu".
  [[nodiscard]] std::string words_for(ValueId value) const;
  /// "aten::mul", the operator that saved the slot; "an operator" where it was not seen.
  [[nodiscard]] std::string saver_of(SlotId slot) const;
};

/// Sets `external` and `kept_as_is`. Foreign storages are the batch's or made by nobody we know. A
/// cast of a parameter lives in autocast's cache for the whole forward pass.
void mark_storages(StepGraph& graph);

/// Sets `small_result`.
void mark_small_results(StepGraph& graph);

/// Gives an operator without parameters, of one input that is no larger than its result
/// (upsampling, an activation, a view), to the segment of its readers when those are of one
/// segment: what crosses between the segments is then the input, of which there is less to keep.
/// An operator that ran in a SegmentScope stays there.
void pass_on_to_readers(StepGraph& graph);

/// Takes over what `warm`, the graph of a later pass of the same flow, has measured: its bytes, and
/// of the times the shorter.
void take_measurements(StepGraph& graph, const StepGraph& warm);

/// Returns true when the two graphs have the same operators on the same values with the same
/// arguments. An operator that differs only in its constants becomes unrepeatable in `first`; the
/// count of these is returned in `unrepeatable`. So do all operators that write memory in place
/// where a write without autograd differs. What differs of numbers, calls and writes varies, and
/// the rest of them does not. It is false where the control flow differs, and nothing may be
/// concluded from either.
[[nodiscard]] bool reconcile(StepGraph& first, const StepGraph& second, int& unrepeatable);

/// Parameter name -> name of the block it belongs to, from names and shapes alone: a block is a
/// module with at least two matrix or convolution weights below it, none of whose children is a
/// block, such as a residual or an attention block ("downs.0.1"). A parameter outside every block
/// belongs to the module that owns it ("conv_in").
[[nodiscard]] std::unordered_map<std::string, std::string> segments_of(
    const std::vector<std::pair<std::string, at::Tensor>>& parameters);

}  // namespace noisemark::memopt

/// An id is hashed as its number.
template <typename Of>
struct std::hash<noisemark::memopt::Id<Of>> {
  size_t operator()(noisemark::memopt::Id<Of> id) const { return static_cast<size_t>(id); }
};
