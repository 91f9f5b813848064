#include "memopt/replay/execution.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <typeindex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/autograd/nodes.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/plan/plan_walk.h"
#include "memopt/record/recorder.h"
#include "memopt/replay/bounded_rounding.h"
#include "memopt/replay/held_values.h"
#include "memopt/replay/value_samples.h"

namespace noisemark::memopt {

void BackwardFindings::ran_recipe(bool again) {
  const std::lock_guard lock(mutex_);
  ++found_.recipes_run;
  if (again) ++found_.recipes_run_again;
}

void BackwardFindings::differed(ValueId value) {
  const std::lock_guard lock(mutex_);
  found_.mismatched.push_back(value);
}

BackwardFinding BackwardFindings::all() const {
  const std::lock_guard lock(mutex_);
  return found_;
}

namespace {

bool has_the_numbers(const RecordedNode& node, const RecordedNode& recorded) {
  if (recorded.numbers_vary.empty()) return node.numbers == recorded.numbers;
  if (node.numbers.size() != recorded.numbers.size()) return false;
  for (size_t i = 0; i < node.numbers.size(); ++i) {
    if (!recorded.numbers_vary[i] && node.numbers[i] != recorded.numbers[i]) return false;
  }
  return true;
}

bool is_the_recorded(const RecordedNode& node, const RecordedNode& recorded) {
  return node.type == recorded.type && node.inputs == recorded.inputs &&
         has_the_numbers(node, recorded) && are_the_recorded(node.call, recorded.call);
}

}  // namespace

bool PathMatch::fits(const at::Tensor& tensor, SlotId slot) {
  const RecordedSlot& recorded = graph_.slots[static_cast<size_t>(slot)];
  return looks_the_same(tensor, recorded) && was_made_the_same(tensor, recorded);
}

bool PathMatch::is_saved_by_the_same(SlotId slot) const {
  return are_the_recorded(history_.call_that_saves(), graph_.slots[static_cast<size_t>(slot)].call);
}

bool PathMatch::looks_the_same(const at::Tensor& tensor, const RecordedSlot& recorded) const {
  const RecordedValue& value = graph_.values[static_cast<size_t>(recorded.value)];
  const auto& node = tensor.grad_fn();
  const std::type_index type = node ? std::type_index(typeid(*node)) : typeid(void);
  if (tensor.sizes() != at::IntArrayRef(value.sizes) || tensor.scalar_type() != value.dtype ||
      form_of(tensor) != recorded.form || type != recorded.node) {
    return false;
  }
  // It is handed out as it was saved, and has no strides to ask for.
  if (value.form == MemoryForm::kOther) return true;
  if (tensor.strides() != at::IntArrayRef(value.strides)) return false;
  // The versions of what the step did not make, such as weights, count the steps.
  const bool external = graph_.storages[static_cast<size_t>(value.storage)].external;
  if (!external && recorded.version != kNone && tensor._version() != recorded.version) return false;
  // Another layer of the same shape is another path.
  return value.origin != RecordedValue::Origin::kModel ||
         (tensor.storage().unsafeGetStorageImpl() ==
              value.model_tensor.storage().unsafeGetStorageImpl() &&
          tensor.storage_offset() == value.storage_offset);
}

bool PathMatch::was_made_the_same(const at::Tensor& tensor, const RecordedSlot& recorded) {
  const auto met = static_cast<std::ptrdiff_t>(history_.nodes().size());
  const RecordedEdge came_from = history_.read(tensor);
  const std::vector<RecordedNode>& nodes = history_.nodes();
  return came_from == recorded.came_from &&
         are_the_recorded(history_.writes_to(tensor), recorded.writes) &&
         nodes.size() == recorded.nodes &&
         std::equal(nodes.begin() + met, nodes.end(), graph_.nodes.begin() + met, is_the_recorded);
}

namespace {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

WeakStorage weak_storage_of(const at::Tensor& tensor) {
  return WeakStorage(
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(tensor.storage().unsafeGetStorageImpl()));
}

/// Kernels of a CPU divide their work among as many threads as this, and round by the division. A
/// thread that begins meanwhile begins with that number.
class ThreadsScope {
 public:
  explicit ThreadsScope(int threads) : before_(at::get_num_threads()) {
    changed_ = threads > 0 && threads != before_;
    if (changed_) at::set_num_threads(threads);
  }
  ~ThreadsScope() {
    if (changed_) at::set_num_threads(before_);
  }
  ThreadsScope(const ThreadsScope&) = delete;
  ThreadsScope& operator=(const ThreadsScope&) = delete;

 private:
  int before_;
  bool changed_ = false;
};

/// Operators run as kernels only: no history, no casts, no callbacks.
class KernelScope {
  at::AutoDispatchBelowADInplaceOrView below_autograd_;
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
  at::DisableRecordFunctionGuard no_callbacks_;
  OwnerScope owner_{Owner::kRematerialized};
};

}  // namespace

class PlanExecution::State {
 public:
  class Hooks;

  State(std::shared_ptr<const TreatmentPlan> plan, const EncodeKey& key, Purpose purpose,
        std::shared_ptr<DeviceDoubt> doubt)
      : plan_(std::move(plan)),
        graph_(*plan_->graph),
        purpose_(purpose),
        key_(key),
        held_(*plan_, key, choice_for(purpose)),
        walk_(*plan_, *this),
        recipe_runs_(plan_->recipes.size(), 0),
        samples_(plan_->slots.size(), std::move(doubt)) {
    if (is_of_this_pass()) path_.emplace(graph_);
    remember_model_versions();
    order_slots();
  }

  struct Packed {
    SlotId slot = kNone;  ///< kNone: the pass has left the recorded flow
    bool drops = false;   ///< the slot's own hooks need not keep the tensor
  };

  Packed pack(const at::Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    const SlotId slot = departed_ ? SlotId(kNone) : next_slot_;
    if (slot != kNone) ++next_slot_;
    if (slot == kNone || !fits_slot(slot, tensor)) {
      departed_ = true;
      return {};
    }
    held_.settle_pending();
    if (purpose_ == Purpose::kVerify && slot == 0 && tensor.is_cpu()) round_beside();
    if (rounding_ != nullptr) (void)rounding_->pack(tensor);
    walk_.supply(slot, tensor);
    if (purpose_ == Purpose::kFollow) remember_rows(slot, tensor);
    if (!drops(slot)) return {slot, false};
    remember_memory(slot, tensor);
    const ValueTreatment& dropped = value(treatment(slot).value);
    const bool exact = dropped.source == Source::kMadeAgain && !dropped.rounded;
    if (exact && purpose_ != Purpose::kRound) samples_.take(slot, tensor);
    return {slot, true};
  }

  [[nodiscard]] bool begins_with(const at::Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    return fits_slot(0, tensor);
  }

  at::Tensor unpack(SlotId slot) {
    const std::lock_guard lock(mutex_);
    held_.settle_pending();
    const ThreadsScope as_forward(threads_);
    const KernelScope kernels;
    note_asked();
    if (at::Tensor saved = still_there(slot); saved.defined()) {
      walk_.pass_over(slot);
      return saved;
    }
    at::Tensor tensor = walk_.ask(slot);
    refuse_overwritten(tensor, treatment(slot).value);
    refuse_another_value(slot, tensor);
    refuse_other_logits(slot, tensor);
    look_ahead(slot);
    if (c10::GradMode::is_enabled()) count_writes(slot, tensor);
    remember_given(slot, tensor);
    return tensor;
  }

  /// The error of a tensor that a slot kept and that was changed in place.
  [[noreturn]] void refuse_changed_slot(SlotId slot, const KeepingHooks& kept) const {
    kept.refuse(graph_.words_for(treatment(slot).value), graph_.saver_of(slot));
  }

  void note_asked() {
    if (!c10::GradMode::is_enabled()) findings_->ask();
  }

  void end_forward() {
    const std::lock_guard lock(mutex_);
    if (path_.has_value()) path_->end();
    held_.finish_encoding();
    held_.settle_pending();
  }

  /// Backward reads what it was given in the slot's place.
  void pass_over(SlotId slot) {
    const std::lock_guard lock(mutex_);
    held_.settle_pending();
    note_asked();
    walk_.pass_over(slot);
  }

  void verify(SlotId slot, const at::Tensor& kept) {
    const std::lock_guard lock(mutex_);
    if (slot == kNone || !treatment(slot).drops) return;
    compared_.insert(slot);
    const ThreadsScope as_forward(threads_);
    const KernelScope kernels;
    const ValueId id = treatment(slot).value;
    bool equal = false;
    try {
      equal = same_bits(walk_.ask(slot), kept);
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const c10::Error&) {
      equal = false;  // an operator that cannot run here is no recipe
    }
    if (!equal) {
      findings_->differed(id);
    } else if (of_rounded_.contains(id)) {
      look_at_rounded(slot, kept);
    }
  }

  void release(SlotId slot) {
    if (slot == kNone) return;
    const std::lock_guard lock(mutex_);
    held_.settle_pending();
    if (rounding_ != nullptr) rounding_->release(slot);
    walk_.release(slot);
  }

  [[nodiscard]] std::shared_ptr<const BackwardFindings> findings() const { return findings_; }
  [[nodiscard]] bool departed() const {
    const std::lock_guard lock(mutex_);
    return departed_;
  }
  [[nodiscard]] bool departed_later() const {
    const std::lock_guard lock(mutex_);
    return departed_ && next_slot_ > 1;
  }
  [[nodiscard]] bool complete() const {
    const std::lock_guard lock(mutex_);
    return !departed_ && static_cast<size_t>(next_slot_) == plan_->slots.size();
  }
  [[nodiscard]] const StepGraph& graph() const { return graph_; }
  [[nodiscard]] bool asked_again() const {
    const std::lock_guard lock(mutex_);
    return walk_.asked_again();
  }
  [[nodiscard]] std::vector<Refusal> refused() const {
    const std::lock_guard lock(mutex_);
    return held_.refused();
  }
  [[nodiscard]] std::vector<AwaitedAnswer> awaited() const {
    const std::lock_guard lock(mutex_);
    return held_.awaited();
  }
  [[nodiscard]] std::vector<ValueId> not_compared() const {
    const std::lock_guard lock(mutex_);
    std::vector<ValueId> values;
    for (size_t s = 0; s < plan_->slots.size(); ++s) {
      if (plan_->slots[s].drops && compared_.count(static_cast<SlotId>(s)) == 0) {
        values.push_back(plan_->slots[s].value);
      }
    }
    return values;
  }
  [[nodiscard]] bool compared_any() const {
    const std::lock_guard lock(mutex_);
    if (!compared_.empty()) return true;
    // A plan that drops nothing has nothing to compare, and tells what its codecs took once all
    // that it saves was saved.
    return backward_order_.empty() && static_cast<size_t>(next_slot_) == plan_->slots.size();
  }
  [[nodiscard]] bool cut_short() const {
    const std::lock_guard lock(mutex_);
    for (size_t s = 0; s < plan_->slots.size(); ++s) {
      if (plan_->slots[s].drops && graph_.slots[s].unpack_order != kNone &&
          compared_.count(static_cast<SlotId>(s)) == 0) {
        return true;
      }
    }
    return false;
  }
  [[nodiscard]] std::map<ValueId, int64_t> shortcut_ns() const {
    const std::lock_guard lock(mutex_);
    return shortcut_ns_;
  }
  [[nodiscard]] std::vector<at::Tensor> held() {
    const std::lock_guard lock(mutex_);
    held_.settle_pending();
    return held_.tensors();
  }

 private:
  [[nodiscard]] static EncodeBy choice_for(Purpose purpose) {
    if (purpose == Purpose::kVerify) return EncodeBy::kFirstToTakeUnlessItRounds;
    return purpose == Purpose::kRound ? EncodeBy::kFirstToTake : EncodeBy::kPlanned;
  }
  /// The others are given tensors without history.
  [[nodiscard]] bool is_of_this_pass() const {
    return purpose_ == Purpose::kFollow || purpose_ == Purpose::kVerify;
  }

  /// Follows the plan as it rounds, where something is made again from rounded values.
  void round_beside() {
    std::vector<std::optional<bool>> known(plan_->values.size());
    for (const SlotTreatment& slot : plan_->slots) {
      if (!slot.drops || value(slot.value).source != Source::kMadeAgain) continue;
      if (is_of_rounded(slot.value, known)) of_rounded_.insert(slot.value);
    }
    if (of_rounded_.empty()) return;
    rounding_ = std::make_unique<State>(plan_, key_, Purpose::kRound, nullptr);
  }

  /// Returns whether a codec that rounds may encode the value, or any that it is made from again.
  [[nodiscard]] bool is_of_rounded(ValueId id, std::vector<std::optional<bool>>& known) const {
    std::optional<bool>& own = known[static_cast<size_t>(id)];
    if (own) return *own;
    own = held_.may_round(id);
    if (value(id).source != Source::kMadeAgain) return *own;
    bool any = false;
    for (const ValueId input : recipe_of(id).inputs) any = is_of_rounded(input, known) || any;
    known[static_cast<size_t>(id)] = any;
    return any;
  }
  [[nodiscard]] const Recipe& recipe_of(ValueId id) const {
    return *plan_->recipes[static_cast<size_t>(value(id).recipe)];
  }

  /// A value made again from rounded ones is not compared, but it must serve as they must.
  void look_at_rounded(SlotId slot, const at::Tensor& kept) {
    try {
      if (held_.serves_rounded(slot, kept, rounding_->unpack(slot))) return;
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const c10::Error&) {
      // A value that cannot be made of rounded ones is not served by them.
    }
    std::set<ValueId> seen;
    refuse_rounding_beneath(treatment(slot).value, seen);
    const RecordedOperator* attention = attention_of(slot);
    if (attention == nullptr) return;
    refuse_rounding_beneath(logits_query(*attention), seen);
    refuse_rounding_beneath(logits_key(*attention), seen);
  }

  /// The attention that saved the slot's tensor; null: another operator did.
  [[nodiscard]] const RecordedOperator* attention_of(SlotId slot) const {
    const OperatorId saver = graph_.slots[static_cast<size_t>(slot)].saved_by;
    if (saver == kNone) return nullptr;
    const RecordedOperator& op = graph_.operators[static_cast<size_t>(saver)];
    return makes_logits_again(op) ? &op : nullptr;
  }

  /// A query or key that is made again from rounded values was looked at when the plan was verified
  /// alone. The logits may have grown since, and with them what the rounding does to them.
  void remember_rows(SlotId slot, const at::Tensor& tensor) {
    const RecordedOperator* attention = attention_of(slot);
    const ValueId id = treatment(slot).value;
    if (attention == nullptr || !tensor.is_cpu() || !is_of_logits(*attention, id)) return;
    const bool made_again =
        is_made_of_rounded(logits_query(*attention)) || is_made_of_rounded(logits_key(*attention));
    if (made_again && tensor.numel() > 0) rows_.insert_or_assign(id, SomeRows(tensor, key_.step));
  }

  [[nodiscard]] bool is_made_of_rounded(ValueId id) const {
    return value(id).rounded && value(id).source == Source::kMadeAgain;
  }

  void refuse_other_logits(SlotId slot, const at::Tensor& made_again) {
    const auto own = rows_.find(treatment(slot).value);
    if (own == rows_.end() || !is_made_of_rounded(own->first)) return;
    const RecordedOperator& attention = *attention_of(slot);
    const bool is_query = own->first == logits_query(attention);
    const auto other = rows_.find(is_query ? logits_key(attention) : logits_query(attention));
    if (other == rows_.end()) return;
    const double error = SomeRows(made_again, key_.step).largest_distance(&own->second);
    const double deviation =
        logits_deviation(attention, own->second.width, error, other->second.largest_distance());
    if (!std::isfinite(deviation) || deviation <= kMostOfALogit) return;
    // The others are of the same kind, and each would be an error of a step of its own.
    for (const auto& [id, rows] : rows_) {
      if (is_made_of_rounded(id)) findings_->differed(id);
    }
    TORCH_CHECK(false, "the logits of ", attention.name, " have grown so much that ",
                is_query ? "a query" : "a key", " made again from rounded values is too far from ",
                "the one that forward had. From the next step on such tensors are kept");
  }

  void refuse_rounding_beneath(ValueId id, std::set<ValueId>& seen) {
    if (!seen.insert(id).second) return;
    if (value(id).source != Source::kMadeAgain) return held_.refuse_rounding(id);
    for (const ValueId input : recipe_of(id).inputs) refuse_rounding_beneath(input, seen);
  }

  [[nodiscard]] bool drops(SlotId slot) const {
    return purpose_ != Purpose::kVerify && treatment(slot).drops &&
           !(value(treatment(slot).value).source == Source::kEncoded &&
             !held_.is_encoded(treatment(slot).value));
  }

  /// Values are fetched from elsewhere so many slots ahead of backward's order.
  static constexpr size_t kLookAhead = 2;

  [[nodiscard]] const SlotTreatment& treatment(SlotId slot) const {
    return plan_->slots[static_cast<size_t>(slot)];
  }
  [[nodiscard]] const ValueTreatment& value(ValueId id) const {
    return plan_->values[static_cast<size_t>(id)];
  }
  [[nodiscard]] bool fits_slot(SlotId slot, const at::Tensor& tensor) {
    if (static_cast<size_t>(slot) >= plan_->slots.size()) return false;
    const ValueId value = graph_.slots[static_cast<size_t>(slot)].value;
    if (path_.has_value() && !path_->fits(tensor, slot)) return false;
    if (path_.has_value() && rounds(slot) && !path_->is_saved_by_the_same(slot)) return false;
    return held_.fits_memory(value, tensor);
  }

  [[nodiscard]] bool rounds(SlotId slot) const {
    return treatment(slot).drops && value(treatment(slot).value).rounded;
  }

  /// Facts that autograd does not know of an operator, such as the summand of an addition, may have
  /// changed without a sign. The gradient would be wrong.
  void refuse_another_value(SlotId slot, const at::Tensor& made_again) {
    if (samples_.fits(slot, made_again)) return;
    findings_->differed(treatment(slot).value);
    TORCH_CHECK(false, not_what_forward_had(graph_, slot));
  }

  /// A slot may write what it was given, which other readers wait for. A view that is made again
  /// has a version of its own, so all that was given of one memory is remembered with it.
  void remember_given(SlotId slot, const at::Tensor& tensor) {
    if (form_of(tensor) != MemoryForm::kPlain) return;
    GivenMemory of_tensor{weak_storage_of(tensor), {}};
    GivenMemory& memory =
        given_.try_emplace(tensor.storage().unsafeGetStorageImpl(), std::move(of_tensor))
            .first->second;
    memory.parts.insert_or_assign(slot, Given{torch::autograd::impl::version_counter(tensor),
                                              tensor._version(), tensor.storage_offset()});
  }

  /// `reader`: the value that would be wrong.
  void refuse_overwritten(const at::Tensor& tensor, ValueId reader) {
    if (!tensor.defined() || form_of(tensor) != MemoryForm::kPlain) return;
    const auto memory = given_.find(tensor.storage().unsafeGetStorageImpl());
    if (memory == given_.end()) return;
    const ElementsRead read{tensor.sizes(), tensor.strides(), tensor.storage_offset(),
                            tensor.scalar_type()};
    for (const auto& [slot, given] : memory->second.parts) {
      const int64_t version = given.counter.current_version();
      if (version == given.version) continue;
      const ValueId id = treatment(slot).value;
      const RecordedValue& value = graph_.value(id);
      if (!may_overlap(read, {value.sizes, value.strides, given.offset, value.dtype})) continue;
      findings_->differed(reader);
      refuse_changed(value.sizes, {given.version, version}, graph_.words_for(id),
                     graph_.saver_of(slot));
    }
  }

  /// Gives new memory the writes that forward's had: a backward pass that is differentiated itself
  /// saves it in a slot of its own, and is compared by that with the recorded one.
  void count_writes(SlotId slot, const at::Tensor& tensor) {
    const RecordedSlot& recorded = graph_.slots[static_cast<size_t>(slot)];
    const RecordedValue& value = graph_.values[static_cast<size_t>(recorded.value)];
    const bool external = graph_.storages[static_cast<size_t>(value.storage)].external;
    if (external) return;
    set_version(tensor, recorded.version);
    if (path_.has_value()) path_->stands_for(tensor, slot);
  }

  /// A tensor that is given to a differentiated backward lives on in its own graph. Where the
  /// program holds the saved memory as well, a second one would be held besides.
  void remember_memory(SlotId slot, const at::Tensor& tensor) {
    if (purpose_ != Purpose::kFollow || form_of(tensor) != MemoryForm::kPlain) return;
    if (!graph_.slots[static_cast<size_t>(slot)].differentiated) return;
    memory_.try_emplace(
        slot, SavedMemory{weak_storage_of(tensor), torch::autograd::impl::version_counter(tensor),
                          static_cast<int64_t>(tensor._version()), tensor.key_set()});
  }

  /// The saved tensor, as long as the program holds its memory and has not written it; else
  /// undefined.
  [[nodiscard]] at::Tensor still_there(SlotId slot) const {
    const auto saved = memory_.find(slot);
    if (saved == memory_.end()) return {};
    const SavedMemory& memory = saved->second;
    c10::intrusive_ptr<c10::StorageImpl> storage = memory.storage.lock();
    if (!storage || memory.counter.current_version() != memory.version) return {};
    const RecordedValue& value = graph_.value(treatment(slot).value);
    at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(std::move(storage)), memory.keys, c10::scalarTypeToTypeMeta(value.dtype));
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(value.sizes, value.strides,
                                                        value.storage_offset);
    torch::autograd::impl::set_version_counter(tensor, memory.counter);
    return tensor;
  }

  // The walk's store, with tensors.
  friend class PlanWalk<at::Tensor, State>;

  [[nodiscard]] static bool is_there(const at::Tensor& tensor) { return tensor.defined(); }

  void hold_slice(const Slice& slice, const at::Tensor& whole) {
    const at::DisableRecordFunctionGuard no_callbacks;
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const OwnerScope owner(Owner::kEncoded);
    const at::Tensor part = slice.take(whole);
    if (purpose_ == Purpose::kVerify) held_.try_codecs(slice.value, part);
    held_.bring(slice.value, part);
  }

  void look_at(SlotId slot, const at::Tensor& tensor) {
    const ValueId id = treatment(slot).value;
    const bool first = graph_.values[static_cast<size_t>(id)].slots.front() == slot;
    if (purpose_ == Purpose::kVerify && first) held_.try_codecs(id, tensor.tensor_data());
    held_.look_at_logits(slot, tensor);
  }

  void hold(ValueId id, const at::Tensor& tensor) {
    const bool asks = value(id).codec != nullptr && !tensor.is_cpu();  // a CPU answers at once
    held_.bring(id, tensor.tensor_data(), asks ? cast_from(tensor) : std::nullopt);
  }

  at::Tensor from_elsewhere(ValueId id) {
    TORCH_CHECK(value(id).source == Source::kModel, "value ", id, " of the plan has no source");
    const at::Tensor& tensor = graph_.values[static_cast<size_t>(id)].model_tensor;
    const auto version = model_versions_.find(id);
    if (version != model_versions_.end() && version->second == tensor._version()) return tensor;
    findings_->differed(id);
    const std::string& name = graph_.values[static_cast<size_t>(id)].model_name;
    TORCH_CHECK(false, name.empty() ? "a buffer" : "parameter \"" + name + '"', ", of shape ",
                tensor.sizes(), ", was changed in place between forward and backward, which makes ",
                "values again from it. From the next step on these are kept");
  }

  at::Tensor held(ValueId id) {
    try {
      return held_.get(id);
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const c10::Error&) {
      findings_->differed(id);
      throw;
    }
  }

  [[nodiscard]] bool decodes_for_reader(ValueId id) const {
    return held_.is_encoded(id) && value(id).encoded_with == kNone;
  }

  void begin(RecipeId recipe, bool aside) {
    findings_->ran_recipe(!aside && recipe_runs_[static_cast<size_t>(recipe)]++ > 0);
  }

  std::vector<at::Tensor> run(const Recipe& recipe, const std::vector<at::Tensor>& inputs) {
    if (!given_.empty()) {
      const ValueId made = *std::find_if(recipe.results.begin(), recipe.results.end(),
                                         [](ValueId result) { return result != kNone; });
      for (const at::Tensor& input : inputs) refuse_overwritten(input, made);
    }
    if (purpose_ != Purpose::kVerify || !recipe.is_shortcut) return recipe.run(inputs);
    const auto begin = std::chrono::steady_clock::now();
    std::vector<at::Tensor> results = recipe.run(inputs);
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
    // Only a CPU is done when they return: of another device that was the launch alone, and the
    // cost stays that of the operators which the shortcut replaces.
    if (results.front().is_cpu()) shortcut_ns_[recipe.results.front()] = took.count();
    return results;
  }

  static void require_made(const Recipe& recipe, ValueId id, const at::Tensor& made) {
    TORCH_CHECK(made.defined(), recipe.name, " did not give value ", id, " when it was recomputed");
  }

  void let_go(ValueId id) { held_.let_go(id); }
  void let_go_decoded(ValueId id) { held_.let_go_decoded(id); }

  void order_slots() {
    for (size_t s = 0; s < plan_->slots.size(); ++s) {
      if (plan_->slots[s].drops) backward_order_.push_back(static_cast<SlotId>(s));
    }
    const auto asked_at = [this](SlotId slot) {
      return graph_.slots[static_cast<size_t>(slot)].unpack_order;
    };
    std::sort(backward_order_.begin(), backward_order_.end(),
              [&](SlotId a, SlotId b) { return asked_at(a) < asked_at(b); });
    place_in_order_.assign(plan_->slots.size(), 0);
    for (size_t i = 0; i < backward_order_.size(); ++i) {
      place_in_order_[static_cast<size_t>(backward_order_[i])] = i;
    }
  }

  /// Begins to fetch what the slots need that backward asked for next when it was recorded.
  void look_ahead(SlotId slot) {
    if (plan_->codecs.empty()) return;
    const size_t here = place_in_order_[static_cast<size_t>(slot)];
    std::set<ValueId> seen;
    for (size_t i = here + 1; i <= here + kLookAhead && i < backward_order_.size(); ++i) {
      std::vector<ValueId> open{treatment(backward_order_[i]).value};
      while (!open.empty()) {
        const ValueId need = open.back();
        open.pop_back();
        if (walk_.is_cached(need) || !seen.insert(need).second) continue;
        held_.prefetch(need);
        plan_->each_need(need, [&open](ValueId input) { open.push_back(input); });
      }
    }
  }

  void remember_model_versions() {
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const RecordedValue& recorded = graph_.values[v];
      if (recorded.origin != RecordedValue::Origin::kModel) continue;
      model_versions_.emplace(static_cast<ValueId>(v), recorded.model_tensor._version());
    }
  }

  const std::shared_ptr<const TreatmentPlan> plan_;
  const StepGraph& graph_;
  const Purpose purpose_;
  const EncodeKey key_;
  mutable std::mutex mutex_;
  std::optional<PathMatch> path_;  ///< is empty in kRehearse and kRound, whose tensors have no
                                   ///< history
  HeldValues held_;
  PlanWalk<at::Tensor, State> walk_;
  std::vector<int32_t> recipe_runs_;
  ValueSamples samples_;  ///< samples of what is recomputed exactly
  std::unordered_map<ValueId, int64_t> model_versions_;
  /// The memory that a slot saved, which the slot does not keep alive.
  struct SavedMemory {
    WeakStorage storage;
    c10::VariableVersion counter;
    int64_t version = 0;
    c10::DispatchKeySet keys;
  };
  /// A tensor that a slot was given, and its version then.
  struct Given {
    c10::VariableVersion counter;
    int64_t version = 0;
    int64_t offset = 0;  ///< its first element in the memory
  };
  /// The tensors that slots were given of one memory.
  struct GivenMemory {
    WeakStorage storage;  ///< keeps the address from being used again
    std::map<SlotId, Given> parts;
  };
  std::unordered_map<const c10::StorageImpl*, GivenMemory> given_;
  std::map<ValueId, SomeRows> rows_;           ///< kFollow: some of the rows of queries and keys
  const int threads_ = at::get_num_threads();  ///< number in forward
  std::map<SlotId, SavedMemory> memory_;       ///< slots that a differentiated backward asks for
  const std::shared_ptr<BackwardFindings> findings_ = std::make_shared<BackwardFindings>();
  std::set<SlotId> compared_;           ///< kVerify: slots that backward asked for
  std::vector<SlotId> backward_order_;  ///< slots that keep nothing, as backward asks for them
  std::vector<size_t> place_in_order_;  ///< place of each slot in backward_order_
  std::map<ValueId, int64_t> shortcut_ns_;
  std::set<ValueId> of_rounded_;  ///< kVerify on a CPU: saved values made again from rounded ones
  std::unique_ptr<State> rounding_;  ///< kVerify: the plan as it rounds; null: there are none
  SlotId next_slot_ = 0;
  bool departed_ = false;
};

class PlanExecution::State::Hooks final : public torch::autograd::SavedVariableHooks {
 public:
  Hooks(std::shared_ptr<State> state, Purpose purpose)
      : state_(std::move(state)), purpose_(purpose) {}
  ~Hooks() override { state_->release(slot_); }
  Hooks(const Hooks&) = delete;
  Hooks& operator=(const Hooks&) = delete;

  void call_pack_hook(const at::Tensor& tensor) override {
    original_.note(tensor);
    const Packed packed = state_->pack(tensor);
    slot_ = packed.slot;
    if (!packed.drops) kept_.emplace().call_pack_hook(tensor);
  }

  at::Tensor call_unpack_hook() override {
    if (!kept_.has_value()) {
      at::Tensor tensor = original_.replaced();
      if (tensor.defined()) {
        state_->pass_over(slot_);
      } else {
        tensor = state_->unpack(slot_);
      }
      return backward_runs_again() ? tensor.clone() : tensor;
    }
    state_->note_asked();
    if (slot_ != kNone && kept_->changed()) state_->refuse_changed_slot(slot_, *kept_);
    at::Tensor kept = kept_->call_unpack_hook();
    if (purpose_ == Purpose::kVerify) state_->verify(slot_, kept_->as_saved());
    return kept;
  }

 private:
  std::shared_ptr<State> state_;
  const Purpose purpose_;
  SlotId slot_ = kNone;
  SavedOriginal original_;
  std::optional<KeepingHooks> kept_;
};

PlanExecution::PlanExecution(std::shared_ptr<const TreatmentPlan> plan, const EncodeKey& key,
                             Purpose purpose, std::shared_ptr<DeviceDoubt> doubt)
    : state_(std::make_shared<State>(std::move(plan), key, purpose, std::move(doubt))),
      purpose_(purpose) {}

PlanExecution::~PlanExecution() = default;

std::unique_ptr<torch::autograd::SavedVariableHooks> PlanExecution::make_hooks() {
  return std::make_unique<State::Hooks>(state_, purpose_);
}

std::shared_ptr<const BackwardFindings> PlanExecution::findings() const {
  return state_->findings();
}

bool PlanExecution::begins_with(const at::Tensor& tensor) {
  return state_->begins_with(tensor);
}

std::weak_ptr<const void> PlanExecution::held_pass() const {
  return state_;
}

bool PlanExecution::is_retained() const {
  const bool recorded = state_->graph().retained;
  return (state_->asked_again() && !recorded) ||
         (state_.use_count() > 1 && state_->findings()->asked());
}

bool PlanExecution::departed() const {
  return state_->departed();
}

bool PlanExecution::departed_later() const {
  return state_->departed_later();
}

bool PlanExecution::complete() const {
  return state_->complete();
}

std::vector<ValueId> PlanExecution::not_compared() const {
  return state_->not_compared();
}

bool PlanExecution::compared_any() const {
  return state_->compared_any();
}

bool PlanExecution::cut_short() const {
  return state_->cut_short();
}

std::map<ValueId, int64_t> PlanExecution::shortcut_ns() const {
  return state_->shortcut_ns();
}

std::vector<Refusal> PlanExecution::refused() const {
  return state_->refused();
}

std::vector<AwaitedAnswer> PlanExecution::awaited() const {
  return state_->awaited();
}

void PlanExecution::end_forward() {
  state_->end_forward();
}

std::vector<at::Tensor> PlanExecution::held() const {
  return state_->held();
}

}  // namespace noisemark::memopt
