#include "memopt/record/recorder.h"

#include <ATen/core/enum_tag.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include "memopt/accounting/allocation_source.h"
#include "memopt/accounting/operator_callback.h"
#include "memopt/autograd/model_view.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/record/exact_storages.h"
#include "memopt/record/history.h"
#include "memopt/record/operator_times.h"
#include "memopt/record/operator_traits.h"
#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

void Lifetimes::follow(StorageId storage, const at::Tensor& tensor) {
  followed_.push_back({storage, WeakTensor(tensor.getIntrusivePtr())});
  ++tensors_of_[storage];
}

std::vector<StorageId> Lifetimes::take_gone() {
  std::vector<StorageId> gone;
  std::erase_if(followed_, [&](const Followed& followed) {
    if (!followed.tensor.expired()) return false;
    if (--tensors_of_[followed.storage] == 0) gone.push_back(followed.storage);
    return true;
  });
  return gone;
}

namespace {

/// An operator that is running.
struct OpenFrame final : at::ObserverContext {
  bool followed = false;
  const void* recorder = nullptr;  ///< the innermost recorder when it began
  OpenFrame* outer = nullptr;
  std::vector<Argument> arguments;
  std::optional<c10::OperatorHandle> handle;
  bool writable = true;  ///< all arguments could be written down
  DeviceClock::Mark began = 0;
  std::vector<SlotId> slots;  ///< slots saved while it ran
  int64_t high_bytes = 0;     ///< the most that were live while it ran
};

/// Callbacks are plain functions, so what they serve is found here.
thread_local OpenFrame* innermost_frame = nullptr;

}  // namespace

class StepRecorder::State {
 public:
  State(const ModelView& model, AllocationSource* memory, OperatorTimes::Queue queue)
      : times_(model, queue) {
    if (memory != nullptr) memory_ = std::make_unique<HighMark>(*memory);
    graph_.begin_gradient_bytes = gradient_bytes(model);
    segment_of_parameter_ = segments_of(model.parameters);
    guarded([&] {
      for (const auto& [name, tensor] : model.parameters) add_model_tensor(tensor, name);
      for (const at::Tensor& tensor : model.buffers) add_model_tensor(tensor, "");
    });
    history_.emplace(graph_);
    outer_ = std::exchange(active_, this);
    graph_.partly_seen = inside_scope();
    if (outer_ != nullptr) outer_->graph_.partly_seen = true;
    outer_frame_ = std::exchange(innermost_frame, nullptr);
    // One callback serves the innermost pass of all.
    add_operator_callback(at::RecordFunctionCallback(&on_begin, &on_end)
                              .needsInputs(true)
                              .needsOutputs(true)
                              .scopes({at::RecordScope::FUNCTION}));
  }

  void stop() {
    if (!std::exchange(following_, false)) return;
    leave();
    history_->end();
    times_.end();
    guarded([this] {
      note_gone();
      resolve_slots();
      for (const auto& [impl, storage] : storage_ids_) {
        graph_.storages[static_cast<size_t>(storage)].writes = history_->writes_to(impl);
      }
    });
  }

  /// It may be an outer one: a pass may find its plan while another mode records inside of it.
  void leave() {
    OpenFrame** frame = &innermost_frame;
    for (State** link = &active_; *link != nullptr; link = &(*link)->outer_) {
      if (*link == this) {
        *link = outer_;
        *frame = outer_frame_;
        break;
      }
      frame = &(*link)->outer_frame_;
    }
    if (active_ == nullptr) remove_operator_callback(&on_begin);
  }

  SlotId add_slot(const at::Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    const auto slot = static_cast<SlotId>(graph_.slots.size());
    RecordedSlot recorded;
    recorded.form = form_of(tensor);
    if (tensor.grad_fn()) recorded.node = typeid(*tensor.grad_fn());
    recorded.at_save = read_memory();
    recorded.came_from = history_->read(tensor);
    recorded.nodes = history_->nodes().size();
    recorded.version = tensor._version();
    recorded.writes = history_->writes_to(tensor);
    recorded.call = history_->call_that_saves();
    graph_.slots.push_back(recorded);
    // An operator's result is saved before the operator has ended, when its value is not known yet.
    pinned_.emplace_back(tensor.getIntrusivePtr());
    pending_.push_back({tensor.unsafeGetTensorImpl(), tensor.tensor_data()});
    // In a scope of this mode inside of another mode's, the other sees the operators.
    const bool runs = innermost_frame != nullptr && innermost_frame->recorder == this;
    if (runs) innermost_frame->slots.push_back(slot);
    return slot;
  }

  void on_unpack(SlotId slot) {
    const std::lock_guard lock(mutex_);
    if (taken_) return;
    const bool differentiated = c10::GradMode::is_enabled();
    graph_.backward_ran = graph_.backward_ran || !differentiated;
    RecordedSlot& recorded = graph_.slots[static_cast<size_t>(slot)];
    recorded.differentiated = recorded.differentiated || differentiated;
    if (recorded.unpack_order != kNone) {
      graph_.retained = true;
      return;
    }
    for (const StorageId gone : lifetimes_.take_gone()) {
      graph_.storages[static_cast<size_t>(gone)].gone_at_unpack = unpacked_;
    }
    recorded.unpack_order = unpacked_++;
    recorded.at_unpack = read_memory();
  }

  void on_release(SlotId slot) {
    const std::lock_guard lock(mutex_);
    if (!taken_ && slot != kNone) {
      graph_.slots[static_cast<size_t>(slot)].gone_at_unpack = unpacked_;
    }
  }

  /// Finds, when all operators are known, which value each slot saved.
  void resolve_slots() {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < pending_.size(); ++i) {
      const ValueId value = value_of(pending_[i].impl, pending_[i].data);
      note_read(value);
      graph_.slots[i].value = value;
      RecordedValue& recorded = graph_.values[static_cast<size_t>(value)];
      recorded.slots.push_back(static_cast<SlotId>(i));
      if (graph_.slots[i].form == MemoryForm::kOther) recorded.form = MemoryForm::kOther;
    }
    pending_.clear();
  }

  StepGraph take() {
    stop();
    if (error_) std::rethrow_exception(error_);
    mark_storages(graph_);
    mark_small_results(graph_);
    pass_on_to_readers(graph_);
    mark_masked_dropouts(graph_);
    mark_exact_storages(graph_);
    mark_moved_statistics(graph_);
    const std::lock_guard lock(mutex_);
    times_.read_into(graph_.operators);
    taken_ = true;
    for (RecordedSlot& slot : graph_.slots) {
      if (slot.gone_at_unpack == kNone) slot.gone_at_unpack = unpacked_;
    }
    graph_.at_end = read_memory();
    graph_.nodes = history_->nodes();
    memory_.reset();
    return std::move(graph_);
  }

 private:
  [[nodiscard]] MemoryReading read_memory() {
    if (memory_ == nullptr) return {};
    const bool runs = innermost_frame != nullptr && innermost_frame->recorder == this;
    look_at_memory(runs ? innermost_frame : nullptr);
    return {memory_->live_bytes(), std::exchange(high_bytes_, 0)};
  }

  /// Reads the memory for the next reading, and for the operator that has run since the last look.
  void look_at_memory(OpenFrame* running) {
    if (memory_ == nullptr) return;
    const int64_t high_bytes = memory_->take();
    high_bytes_ = std::max(high_bytes_, high_bytes);
    if (running != nullptr) running->high_bytes = std::max(running->high_bytes, high_bytes);
  }

  [[nodiscard]] int64_t scratch_of(OpenFrame& frame) {
    if (memory_ == nullptr) return 0;
    look_at_memory(&frame);
    if (frame.outer != nullptr) {
      frame.outer->high_bytes = std::max(frame.outer->high_bytes, frame.high_bytes);
    }
    return frame.high_bytes - memory_->live_bytes();
  }

  static std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& function) {
    State* state = active_;
    if (state == nullptr || !function.operator_name().has_value() || below_autograd()) {
      return nullptr;
    }
    auto frame = std::make_unique<OpenFrame>();
    state->guarded([&] { state->begin(function, *frame); });
    return frame;
  }

  /// A recorder may have begun inside of the operator: the frame is then that of an outer one.
  static void on_end(const at::RecordFunction& function, at::ObserverContext* context) {
    auto* frame = static_cast<OpenFrame*>(context);
    if (frame == nullptr || !frame->followed) return;
    State* inner = nullptr;
    State* state = active_;
    while (state != nullptr && state != frame->recorder)
      inner = std::exchange(state, state->outer_);
    if (state == nullptr) return;
    (inner == nullptr ? innermost_frame : inner->outer_frame_) = frame->outer;
    state->guarded([&] { state->end(function, *frame); });
  }

  // LibTorch turns an exception of a callback into a warning.
  template <typename Action>
  void guarded(Action action) {
    if (error_) return;
    try {
      const at::DisableRecordFunctionGuard no_recursion;
      action();
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  void note_gone() {
    const std::lock_guard lock(mutex_);
    const auto ended = static_cast<OperatorId>(graph_.operators.size());
    for (const StorageId gone : lifetimes_.take_gone()) {
      graph_.storages[static_cast<size_t>(gone)].gone_at_operator = ended;
    }
  }

  void begin(const at::RecordFunction& function, OpenFrame& frame) {
    note_gone();
    const std::lock_guard lock(mutex_);
    frame.handle = c10::Dispatcher::singleton().findSchema(*function.operator_name());
    if (!frame.handle) return;
    for (const c10::IValue& input : function.inputs()) {
      frame.arguments.push_back(written_down(input, frame.writable));
    }
    if (innermost_frame == nullptr) times_.between_operators();
    frame.followed = true;
    frame.recorder = this;
    look_at_memory(innermost_frame);
    frame.outer = std::exchange(innermost_frame, &frame);
    frame.began = times_.mark();
  }

  Argument written_down(const c10::IValue& input, bool& writable) {
    Argument argument;
    if (input.isTensor()) {
      argument.kind = Argument::Kind::kTensor;
      argument.values = {value_read(input.toTensor())};
    } else if (input.isTensorList()) {
      argument.kind = Argument::Kind::kTensorList;
      for (const at::Tensor& tensor : input.toTensorVector()) {
        argument.values.push_back(value_read(tensor));
      }
    } else {
      // A list of optional tensors, or a generator, whose state is not part of the argument.
      if (input.isGenerator() || (input.isList() && !is_plain_list(input))) {
        writable = false;
      } else {
        argument.constant = input;
      }
    }
    return argument;
  }

  void end(const at::RecordFunction& function, OpenFrame& frame) {
    const DeviceClock::Mark ended = times_.mark();
    const std::lock_guard lock(mutex_);
    const int64_t scratch_bytes = scratch_of(frame);
    const std::vector<at::Tensor> results = tensors_of(function.outputs());
    const c10::FunctionSchema& schema = frame.handle->schema();
    int32_t overwrites = kNone;
    if (schema.is_mutable()) {
      overwrites = overwritten_argument(frame, schema, results);
      if (overwrites == kNone) mark_written(frame, schema);
    }
    if (overwrites != kNone) {
      add_operator(frame, results, ended, overwrites, scratch_bytes);
      return;
    }
    const bool fresh = std::any_of(results.begin(), results.end(), [this](const at::Tensor& t) {
      return t.defined() && ids_.count(t.unsafeGetTensorImpl()) == 0;
    });
    if (!fresh) {
      // A tensor that a composite operator saved was saved by an operator inside it.
      if (frame.outer != nullptr) append(frame.outer->slots, frame.slots);
      return;
    }
    add_operator(frame, results, ended, kNone, scratch_bytes);
  }

  void add_operator(OpenFrame& frame, const std::vector<at::Tensor>& results,
                    DeviceClock::Mark ended, int32_t overwrites, int64_t scratch_bytes) {
    RecordedOperator recorded{*frame.handle,
                              frame.handle->operator_name().name,
                              std::move(frame.arguments),
                              {},
                              kNone,
                              0,
                              overwrites,
                              true};
    recorded.repeatable = frame.writable && is_repeatable(recorded);
    recorded.scratch_bytes = scratch_bytes;
    // The tensor goes on under another value.
    if (overwrites != kNone) {
      const auto known = ids_.find(results.front().unsafeGetTensorImpl());
      replaced_.insert(known->second);
      ids_.erase(known);
    }
    recorded.in_scope = SegmentScope::current() != nullptr;
    recorded.segment =
        recorded.in_scope ? segment_index(*SegmentScope::current()) : segment_of(recorded);
    const auto id = static_cast<OperatorId>(graph_.operators.size());
    for (const Argument& argument : recorded.arguments) add_reader(argument, id);
    for (const at::Tensor& tensor : results) {
      const bool known = !tensor.defined() || ids_.count(tensor.unsafeGetTensorImpl()) != 0;
      recorded.results.push_back(known ? kNone : add_result(tensor, id, recorded.results.size()));
    }
    for (const SlotId slot : frame.slots) graph_.slots[static_cast<size_t>(slot)].saved_by = id;
    graph_.operators.push_back(std::move(recorded));
    times_.note(frame.began, ended);
  }

  ValueId add_result(const at::Tensor& tensor, OperatorId producer, size_t index) {
    const ValueId id = value_of(tensor.unsafeGetTensorImpl(), tensor);
    RecordedValue& value = graph_.values[static_cast<size_t>(id)];
    value.origin = RecordedValue::Origin::kComputed;
    value.producer = producer;
    value.has_history = tensor.requires_grad();
    value.result_index = static_cast<int32_t>(index);
    return id;
  }

  void add_reader(const Argument& argument, OperatorId reader) {
    for (const ValueId value : argument.values) {
      if (value != kNone) graph_.values[static_cast<size_t>(value)].readers.push_back(reader);
    }
  }

  static void append(std::vector<SlotId>& to, const std::vector<SlotId>& from) {
    to.insert(to.end(), from.begin(), from.end());
  }

  /// The one argument that an operator writes and returns, when nobody saved what was in it before.
  /// Other tensors that show the written elements must not be read any more (stale_).
  int32_t overwritten_argument(const OpenFrame& frame, const c10::FunctionSchema& schema,
                               const std::vector<at::Tensor>& results) {
    int32_t written = kNone;
    for (size_t i = 0; i < frame.arguments.size() && i < schema.arguments().size(); ++i) {
      const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
      if (alias == nullptr || !alias->isWrite()) continue;
      if (written != kNone || frame.arguments[i].kind != Argument::Kind::kTensor) return kNone;
      written = static_cast<int32_t>(i);
    }
    if (written == kNone || results.size() != 1 || !results.front().defined()) return kNone;
    const ValueId before = frame.arguments[static_cast<size_t>(written)].values.front();
    const auto known = ids_.find(results.front().unsafeGetTensorImpl());
    if (before == kNone || known == ids_.end() || known->second != before) return kNone;
    if (graph_.value(before).origin != RecordedValue::Origin::kComputed) return kNone;
    RecordedStorage& storage = storage_of(before);
    const Saved saved = what_was_saved(before, results.front(), frame);
    if (storage.written_in_place || saved == Saved::kThese) return kNone;
    storage.written_in_parts = storage.written_in_parts || saved == Saved::kOthers;
    for (const ValueId other : storage.values) {
      if (other != before && replaced_.count(other) == 0 && overlap(other, before)) {
        stale_.insert(other);
      }
    }
    return written;
  }

  [[nodiscard]] bool overlap(ValueId a, ValueId b) const {
    return may_overlap(graph_.value(a).elements_read(), graph_.value(b).elements_read());
  }

  /// The elements of a memory that slots hold.
  enum class Saved : uint8_t { kNothing, kOthers, kThese };

  /// Does not count what the operator has saved itself: that is its result, as ReLU saves it.
  [[nodiscard]] Saved what_was_saved(ValueId value, const at::Tensor& tensor,
                                     const OpenFrame& frame) const {
    if (!tensor.has_storage()) return Saved::kNothing;
    const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
    Saved found = Saved::kNothing;
    for (size_t s = 0; s < pending_.size(); ++s) {
      const bool own = std::find(frame.slots.begin(), frame.slots.end(), static_cast<SlotId>(s)) !=
                       frame.slots.end();
      const at::Tensor& saved = pending_[s].data;
      if (own || !saved.has_storage()) continue;
      if (saved.storage().unsafeGetStorageImpl() != storage) continue;
      if (form_of(saved) == MemoryForm::kOther) return Saved::kThese;
      const ElementsRead read{saved.sizes(), saved.strides(), saved.storage_offset(),
                              saved.scalar_type()};
      if (may_overlap(read, graph_.value(value).elements_read())) return Saved::kThese;
      found = Saved::kOthers;
    }
    return found;
  }

  void mark_written(const OpenFrame& frame, const c10::FunctionSchema& schema) {
    for (size_t i = 0; i < frame.arguments.size() && i < schema.arguments().size(); ++i) {
      const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
      if (alias == nullptr || !alias->isWrite()) continue;
      for (const ValueId value : frame.arguments[i].values) {
        if (value != kNone) storage_of(value).written_in_place = true;
      }
    }
  }

  RecordedStorage& storage_of(ValueId value) {
    return graph_.storages[static_cast<size_t>(graph_.values[static_cast<size_t>(value)].storage)];
  }

  SegmentId segment_of(const RecordedOperator& recorded) {
    SegmentId inherited = kNone;
    for (const Argument& argument : recorded.arguments) {
      for (const ValueId id : argument.values) {
        if (id == kNone) continue;
        const RecordedValue& value = graph_.values[static_cast<size_t>(id)];
        const auto named = segment_of_parameter_.find(value.model_name);
        if (!value.model_name.empty() && named != segment_of_parameter_.end()) {
          return segment_index(named->second);
        }
        if (value.producer == kNone) continue;
        inherited =
            std::max(inherited, graph_.operators[static_cast<size_t>(value.producer)].segment);
      }
    }
    return inherited;
  }

  SegmentId segment_index(const std::string& name) {
    const auto known = std::find(graph_.segments.begin(), graph_.segments.end(), name);
    const SegmentId index(known - graph_.segments.begin());
    if (known == graph_.segments.end()) graph_.segments.push_back(name);
    return index;
  }

  /// Does what value_or_none() does, of a tensor that somebody reads or saves now.
  ValueId value_read(const at::Tensor& tensor) {
    const ValueId value = value_or_none(tensor);
    note_read(value);
    return value;
  }

  /// A value that was written through another tensor is no longer as it was made.
  void note_read(ValueId value) {
    if (stale_.count(value) != 0) storage_of(value).written_in_place = true;
  }

  ValueId value_or_none(const at::Tensor& tensor) {
    return tensor.defined() ? value_of(tensor.unsafeGetTensorImpl(), tensor) : kNone;
  }

  /// `impl` identifies the tensor; `tensor` has its sizes and its storage.
  ValueId value_of(c10::TensorImpl* impl, const at::Tensor& tensor) {
    const auto known = ids_.find(impl);
    if (known != ids_.end()) return known->second;
    if (tensor.is_nested()) throw std::runtime_error("the forward pass has a nested tensor");
    const auto id = static_cast<ValueId>(graph_.values.size());
    RecordedValue value;
    value.sizes = tensor.sizes().vec();
    value.form = form_of(tensor);
    if (value.form != MemoryForm::kOther) {
      value.strides = tensor.strides().vec();
      value.storage_offset = tensor.storage_offset();
    }
    value.dtype = tensor.scalar_type();
    value.storage = storage_id(tensor);
    graph_.storages[static_cast<size_t>(value.storage)].values.push_back(id);
    graph_.values.push_back(std::move(value));
    // Weak: the memory of the object is not used again, so its address stays its name.
    if (impl == tensor.unsafeGetTensorImpl()) {
      pinned_.emplace_back(tensor.getIntrusivePtr());
      lifetimes_.follow(graph_.values.back().storage, tensor);
    }
    ids_.emplace(impl, id);
    return id;
  }

  StorageId storage_id(const at::Tensor& tensor) {
    if (!tensor.has_storage()) {
      graph_.storages.emplace_back();
      return graph_.storages.size() - 1;
    }
    c10::StorageImpl* impl = tensor.storage().unsafeGetStorageImpl();
    const auto bytes = static_cast<int64_t>(tensor.storage().nbytes());
    const auto known = storage_ids_.find(impl);
    if (known != storage_ids_.end()) {
      // An operator gives its `out` the memory that it needs.
      int64_t& known_bytes = graph_.storages[static_cast<size_t>(known->second)].bytes;
      known_bytes = std::max(known_bytes, bytes);
      return known->second;
    }
    const auto id = static_cast<StorageId>(graph_.storages.size());
    RecordedStorage storage;
    storage.bytes = bytes;
    graph_.storages.push_back(std::move(storage));
    pinned_storages_.emplace_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(impl));
    storage_ids_.emplace(impl, id);
    return id;
  }

  void add_model_tensor(const at::Tensor& tensor, const std::string& name) {
    if (tensor.is_nested()) throw std::runtime_error("the model has a nested tensor");
    RecordedValue& value = graph_.values[static_cast<size_t>(value_or_none(tensor))];
    value.origin = RecordedValue::Origin::kModel;
    value.model_tensor = tensor.tensor_data();
    value.model_name = name;
  }

  struct PendingSlot {
    c10::TensorImpl* impl;
    at::Tensor data;  ///< shares the storage
  };

  static thread_local State* active_;

  /// The forward pass that this one lies in, which sees nothing of it; null: none.
  State* outer_ = nullptr;
  OpenFrame* outer_frame_ = nullptr;
  std::unique_ptr<HighMark> memory_;  ///< is null where it is not read
  int64_t high_bytes_ = 0;            ///< the most since the last reading, as far as it was looked
  OperatorTimes times_;
  std::mutex mutex_;
  StepGraph graph_;
  std::optional<HistoryReader> history_;
  std::unordered_map<std::string, std::string> segment_of_parameter_;
  std::unordered_map<const c10::TensorImpl*, ValueId> ids_;
  std::unordered_map<const c10::StorageImpl*, StorageId> storage_ids_;
  std::vector<WeakTensor> pinned_;  ///< tensors named by their addresses
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> pinned_storages_;
  std::vector<PendingSlot> pending_;
  Lifetimes lifetimes_;
  std::set<ValueId> replaced_;  ///< values overwritten in place
  std::set<ValueId> stale_;     ///< elements of theirs were written through another tensor
  int32_t unpacked_ = 0;
  bool following_ = true;
  bool taken_ = false;
  std::exception_ptr error_;
};

thread_local StepRecorder::State* StepRecorder::State::active_ = nullptr;

/// Keeps the tensor, as autograd would, and tells when it is asked for.
class StepRecorder::Hooks final : public torch::autograd::SavedVariableHooks {
 public:
  explicit Hooks(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~Hooks() override { state_->on_release(slot_); }
  Hooks(const Hooks&) = delete;
  Hooks& operator=(const Hooks&) = delete;

  void call_pack_hook(const at::Tensor& tensor) override {
    const at::DisableRecordFunctionGuard no_recursion;
    slot_ = state_->add_slot(tensor);
    kept_.call_pack_hook(tensor);
  }

  at::Tensor call_unpack_hook() override {
    state_->on_unpack(slot_);
    return kept_.call_unpack_hook();
  }

 private:
  std::shared_ptr<State> state_;
  SlotId slot_ = kNone;
  KeepingHooks kept_;
};

StepRecorder::StepRecorder(const ModelView& model, AllocationSource* memory,
                           OperatorTimes::Queue queue)
    : state_(std::make_shared<State>(model, memory, queue)) {}

StepRecorder::~StepRecorder() {
  end_forward();
}

std::unique_ptr<torch::autograd::SavedVariableHooks> StepRecorder::make_hooks() {
  return std::make_unique<Hooks>(state_);
}

void StepRecorder::end_forward() {
  state_->stop();
}

std::weak_ptr<const void> StepRecorder::held_pass() const {
  return state_;
}

StepGraph StepRecorder::take() {
  return state_->take();
}

}  // namespace noisemark::memopt
