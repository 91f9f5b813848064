#include "memopt/replay/execution.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/record_function.h>
#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "memopt/keeping_hooks.h"
#include "memopt/record/cast_from.h"
#include "memopt/replay/fits.h"
#include "memopt/replay/held_values.h"
#include "memopt/replay/same_bits.h"
#include "memopt/replay/value_samples.h"
#include "memopt/tracking_allocator.h"

namespace noisemark::memopt {
namespace {

/// Operators run as kernels only: no history, no casts, no callbacks.
class KernelScope {
  at::AutoDispatchBelowADInplaceOrView below_autograd_;
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
  at::DisableRecordFunctionGuard no_callbacks_;
  OwnerScope owner_{Owner::kRematerialized};
};

using Local = std::unordered_map<ValueId, at::Tensor>;

}  // namespace

class PlanExecution::State {
 public:
  class Hooks;

  State(std::shared_ptr<const TreatmentPlan> plan, const EncodeKey& key, Purpose purpose,
        std::shared_ptr<DeviceDoubt> doubt)
      : plan_(std::move(plan)),
        graph_(*plan_->graph),
        purpose_(purpose),
        held_(*plan_, key, purpose == Purpose::kVerify),
        uses_(plan_->values.size(), 0),
        cache_(plan_->values.size()),
        reads_left_(plan_->values.size(), 0),
        recipe_runs_(plan_->recipes.size(), 0),
        samples_(plan_->slots.size(), std::move(doubt)) {
    if (purpose_ != Purpose::kRehearse) path_.emplace(graph_);
    for (const SlotTreatment& slot : plan_->slots) {
      for (const ValueId need : slot.needs) ++uses_[static_cast<size_t>(need)];
    }
    for (size_t v = 0; v < plan_->values.size(); ++v) reads_left_[v] = plan_->values[v].reads;
    remember_model_versions();
    order_slots();
  }

  struct Packed {
    SlotId slot = kNone;  ///< kNone: the pass has left the recorded flow
    bool drops = false;   ///< the slot's own hooks need not keep the tensor
  };

  Packed pack(const at::Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    const SlotId slot = departed_ ? kNone : next_slot_++;
    if (slot == kNone || !fits_slot(slot, tensor)) {
      departed_ = true;
      return {};
    }
    supply(slot, tensor);
    if (!drops(slot)) return {slot, false};
    const ValueTreatment& dropped = value(treatment(slot).value);
    if (dropped.source == Source::kMadeAgain && !dropped.rounded) {
      samples_.take(slot, tensor);
    }
    return {slot, true};
  }

  at::Tensor unpack(SlotId slot) {
    const std::lock_guard lock(mutex_);
    held_.settle_pending();
    const KernelScope kernels;
    at::Tensor tensor = get(treatment(slot).value, nullptr);
    refuse_another_value(slot, tensor);
    look_ahead(slot);
    return tensor;
  }

  /// The error of a tensor that a slot kept and that was changed in place.
  [[noreturn]] void refuse_changed_slot(SlotId slot, const KeepingHooks& kept) const {
    kept.refuse(graph_.words_for(treatment(slot).value), graph_.saver_of(slot));
  }

  void end_forward() {
    const std::lock_guard lock(mutex_);
    if (path_.has_value()) path_->end();
    held_.finish_encoding();
    held_.settle_pending();
  }

  void verify(SlotId slot, const at::Tensor& kept) {
    const std::lock_guard lock(mutex_);
    if (slot == kNone || !treatment(slot).drops) return;
    compared_.insert(slot);
    const KernelScope kernels;
    const ValueId id = treatment(slot).value;
    bool equal = false;
    try {
      equal = same_bits(get(id, nullptr), kept);
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const c10::Error&) {
      equal = false;  // an operator that cannot run here is no recipe
    }
    if (!equal) findings_->differed(id);
  }

  void release(SlotId slot) {
    if (slot == kNone) return;
    const std::lock_guard lock(mutex_);
    held_.settle_pending();
    if (treatment(slot).drops) read(treatment(slot).value);
    for (const ValueId need : treatment(slot).needs) {
      const auto at = static_cast<size_t>(need);
      if (--uses_[at] > 0) continue;
      held_.let_go(need);
      cache_[at].reset();
    }
  }

  [[nodiscard]] std::shared_ptr<const BackwardFindings> findings() const { return findings_; }
  [[nodiscard]] bool departed() const {
    const std::lock_guard lock(mutex_);
    return departed_;
  }
  [[nodiscard]] std::vector<Refusal> refused() const {
    const std::lock_guard lock(mutex_);
    return held_.refused();
  }
  [[nodiscard]] std::vector<AwaitedVerdict> awaited() const {
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
    // A plan that drops nothing tells what its codecs took, once all that it saves was saved.
    const bool drops_nothing = backward_order_.empty() && !plan_->trials.empty();
    return drops_nothing && static_cast<size_t>(next_slot_) == plan_->slots.size();
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
  [[nodiscard]] bool drops(SlotId slot) const {
    return purpose_ != Purpose::kVerify && treatment(slot).drops &&
           !(value(treatment(slot).value).source == Source::kEncoded &&
             !held_.is_encoded(treatment(slot).value));
  }

  /// How many slots ahead of backward's order values are fetched from elsewhere.
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
    return (!path_.has_value() || path_->fits(tensor, slot)) && held_.fits_memory(value, tensor);
  }

  /// What autograd does not know of an operator, such as the summand of an addition, may have
  /// changed without a sign. The gradient would be wrong.
  void refuse_another_value(SlotId slot, const at::Tensor& made_again) {
    if (samples_.fits(slot, made_again)) return;
    findings_->differed(treatment(slot).value);
    TORCH_CHECK(false, not_what_forward_had(graph_, slot));
  }

  void supply(SlotId slot, const at::Tensor& tensor) {
    held_.settle_pending();
    const SlotTreatment& slot_treatment = treatment(slot);
    for (const Slice& slice : slot_treatment.slices) {
      const at::DisableRecordFunctionGuard no_callbacks;
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      const OwnerScope owner(Owner::kEncoded);
      const at::Tensor part = slice.take(tensor);
      if (purpose_ == Purpose::kVerify) held_.try_codecs(slice.value, part);
      held_.bring(slice.value, part);
    }
    if (purpose_ == Purpose::kVerify && is_first(slot)) {
      held_.try_codecs(slot_treatment.value, tensor.tensor_data());
    }
    const ValueTreatment& own = value(slot_treatment.value);
    const bool first = own.supplied_by == slot;
    if (first && (slot_treatment.supplies || own.source == Source::kEncoded)) {
      const bool asks = own.codec != nullptr && !tensor.is_cpu();  // a CPU answers at once
      held_.bring(slot_treatment.value, tensor.tensor_data(),
                  asks ? cast_from(tensor) : std::nullopt);
    }
  }

  /// The first to save its value.
  [[nodiscard]] bool is_first(SlotId slot) const {
    const ValueId id = treatment(slot).value;
    return graph_.values[static_cast<size_t>(id)].slots.front() == slot;
  }

  /// `local`: what is made on the side while a heavy operator is replayed; null otherwise.
  at::Tensor get(ValueId id, Local* local) {
    if (local != nullptr && local->count(id) != 0) return local->at(id);
    if (cache_[static_cast<size_t>(id)].defined()) return cache_[static_cast<size_t>(id)];
    switch (value(id).source) {
      case Source::kModel:
        return model_tensor(id);
      case Source::kHeld:
      case Source::kEncoded:
      case Source::kSliced:
        return held_or_decoded(id);
      case Source::kMadeAgain:
        return make_again(id, local);
      case Source::kUnavailable:
        break;
    }
    TORCH_CHECK(false, "value ", id, " of the plan has no source");
  }

  at::Tensor model_tensor(ValueId id) {
    const at::Tensor& tensor = graph_.values[static_cast<size_t>(id)].model_tensor;
    const auto version = model_versions_.find(id);
    TORCH_CHECK(version != model_versions_.end() && version->second == tensor._version(),
                "parameter or buffer \"", graph_.values[static_cast<size_t>(id)].model_name,
                "\" was changed in place between forward and backward");
    return tensor;
  }

  at::Tensor held_or_decoded(ValueId id) {
    at::Tensor tensor = held_.get(id);
    const bool own = held_.is_encoded(id) && value(id).encoded_with == kNone;
    if (own && reads_left_[static_cast<size_t>(id)] > 0) cache_[static_cast<size_t>(id)] = tensor;
    return tensor;
  }

  at::Tensor make_again(ValueId id, Local* local) {
    const Recipe& recipe = *plan_->recipes[static_cast<size_t>(value(id).recipe)];
    const bool aside = local != nullptr && value(id).light;
    count_run(value(id).recipe, aside);
    std::vector<at::Tensor> results = run(recipe, inputs_of(recipe, value(id).light, local));
    if (!aside) {
      for (const ValueId input : recipe.inputs) {
        if (value(id).light || !value(input).light) read(input);
      }
    }
    at::Tensor wanted;
    for (size_t i = 0; i < recipe.results.size() && i < results.size(); ++i) {
      const ValueId result = recipe.results[i];
      if (result == kNone) continue;
      if (result == id) wanted = results[i];
      if (value(result).source != Source::kMadeAgain) continue;
      if (aside) {
        (*local)[result] = results[i];
      } else if (reads_left_[static_cast<size_t>(result)] > 0) {
        cache_[static_cast<size_t>(result)] = results[i];
      }
    }
    TORCH_CHECK(wanted.defined(), recipe.name, " did not give value ", id, " when it was replayed");
    return wanted;
  }

  std::vector<at::Tensor> run(const Recipe& recipe, const std::vector<at::Tensor>& inputs) {
    if (purpose_ != Purpose::kVerify || !recipe.is_shortcut) return recipe.run(inputs);
    const auto begin = std::chrono::steady_clock::now();
    std::vector<at::Tensor> results = recipe.run(inputs);
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
    // Only a CPU is done when they return: of another device that was the launch alone, and the
    // cost stays that of the operators which the shortcut replaces.
    if (results.front().is_cpu()) shortcut_ns_[recipe.results.front()] = took.count();
    return results;
  }

  /// What is light and feeds a heavy operator is made on the side and let go with it.
  std::vector<at::Tensor> inputs_of(const Recipe& recipe, bool light, Local* local) {
    Local own;
    Local* side = light ? local : &own;
    std::vector<at::Tensor> inputs;
    inputs.reserve(recipe.inputs.size());
    for (const ValueId input : recipe.inputs) {
      inputs.push_back(get(input, value(input).light ? side : nullptr));
    }
    return inputs;
  }

  void count_run(int32_t recipe, bool aside) {
    findings_->ran_recipe(!aside && recipe_runs_[static_cast<size_t>(recipe)]++ > 0);
  }

  void read(ValueId id) {
    const auto at = static_cast<size_t>(id);
    if (--reads_left_[at] <= 0) cache_[at].reset();
  }

  void order_slots() {
    for (size_t s = 0; s < plan_->slots.size(); ++s) {
      if (plan_->slots[s].drops) backward_order_.push_back(static_cast<SlotId>(s));
    }
    const auto asked_at = [this](SlotId slot) {
      return graph_.slots[static_cast<size_t>(slot)].unpack_order;
    };
    std::sort(backward_order_.begin(), backward_order_.end(),
              [&](SlotId a, SlotId b) { return asked_at(a) < asked_at(b); });
  }

  /// Begins to fetch what the slots need that backward asked for next when it was recorded.
  void look_ahead(SlotId slot) {
    const auto here = std::find(backward_order_.begin(), backward_order_.end(), slot);
    const auto behind = static_cast<size_t>(backward_order_.end() - here);
    for (size_t i = 1; i <= kLookAhead && i < behind; ++i) {
      for (const ValueId need : treatment(here[static_cast<std::ptrdiff_t>(i)]).needs) {
        if (!cache_[static_cast<size_t>(need)].defined()) held_.prefetch(need);
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
  mutable std::mutex mutex_;
  std::optional<PathMatch> path_;  ///< empty in kRehearse, whose tensors have no history
  HeldValues held_;
  std::vector<int32_t> uses_;  ///< slots that still need the held value
  std::vector<at::Tensor> cache_;
  std::vector<int32_t> reads_left_;
  std::vector<int32_t> recipe_runs_;
  ValueSamples samples_;  ///< of what is made again
  std::unordered_map<ValueId, int64_t> model_versions_;
  const std::shared_ptr<BackwardFindings> findings_ = std::make_shared<BackwardFindings>();
  std::set<SlotId> compared_;           ///< kVerify: slots that backward asked for
  std::vector<SlotId> backward_order_;  ///< slots that keep nothing, as backward asks for them
  std::map<ValueId, int64_t> shortcut_ns_;
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
    const Packed packed = state_->pack(tensor);
    slot_ = packed.slot;
    if (!packed.drops) kept_.emplace().call_pack_hook(tensor);
  }

  at::Tensor call_unpack_hook() override {
    if (!kept_.has_value()) return state_->unpack(slot_);
    if (slot_ != kNone && kept_->changed()) state_->refuse_changed_slot(slot_, *kept_);
    at::Tensor kept = kept_->call_unpack_hook();
    if (purpose_ == Purpose::kVerify) state_->verify(slot_, kept);
    return kept;
  }

 private:
  std::shared_ptr<State> state_;
  const Purpose purpose_;
  SlotId slot_ = kNone;
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

bool PlanExecution::departed() const {
  return state_->departed();
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

std::vector<AwaitedVerdict> PlanExecution::awaited() const {
  return state_->awaited();
}

void PlanExecution::end_forward() {
  state_->end_forward();
}

std::vector<at::Tensor> PlanExecution::held() const {
  return state_->held();
}

}  // namespace noisemark::memopt
