#include "memopt/replay/rehearsal.h"

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <mutex>
#include <utility>
#include <vector>

#include "memopt/keeping_hooks.h"
#include "memopt/replay/execution.h"
#include "memopt/replay/fits.h"

namespace noisemark::memopt {

class Rehearsal::State {
 public:
  State(std::shared_ptr<const StepGraph> graph, const EncodeKey& key,
        std::shared_ptr<DeviceDoubt> doubt)
      : graph_(std::move(graph)), key_(key), doubt_(std::move(doubt)), path_(*graph_) {}

  SlotId pack(const at::Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    const auto slot = static_cast<SlotId>(saved_.size());
    departed_ = departed_ || saved_.size() >= graph_->slots.size() || !path_.fits(tensor, slot);
    if (departed_) return kNone;
    saved_.push_back(tensor.tensor_data());
    return slot;
  }

  void rehearse(const std::shared_ptr<const TreatmentPlan>& plan) {
    const std::lock_guard lock(mutex_);
    asked_ = 0;
    slots_.clear();
    if (plan == nullptr) return;
    PlanExecution execution(plan, key_, PlanExecution::Purpose::kRehearse, doubt_);
    for (const at::Tensor& tensor : saved_) {
      slots_.push_back(execution.make_hooks());
      slots_.back()->call_pack_hook(tensor);
    }
    execution.end_forward();
  }

  at::Tensor unpack(SlotId slot, KeepingHooks& kept) {
    torch::autograd::SavedVariableHooks* rehearsed = nullptr;
    {
      const std::lock_guard lock(mutex_);
      ++asked_;
      if (slot != kNone && !slots_.empty()) rehearsed = slots_[static_cast<size_t>(slot)].get();
    }
    return rehearsed == nullptr ? kept.call_unpack_hook() : rehearsed->call_unpack_hook();
  }

  [[nodiscard]] int64_t asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  [[nodiscard]] bool complete() const {
    const std::lock_guard lock(mutex_);
    return !departed_ && saved_.size() == graph_->slots.size();
  }
  void end() {
    rehearse(nullptr);
    const std::lock_guard lock(mutex_);
    saved_.clear();
    departed_ = true;
  }

 private:
  const std::shared_ptr<const StepGraph> graph_;
  const EncodeKey key_;
  const std::shared_ptr<DeviceDoubt> doubt_;
  PathMatch path_;
  mutable std::mutex mutex_;
  std::vector<at::Tensor> saved_;                                            ///< by slot
  std::vector<std::unique_ptr<torch::autograd::SavedVariableHooks>> slots_;  ///< of the plan
  int64_t asked_ = 0;
  bool departed_ = false;
};

class Rehearsal::Hooks final : public torch::autograd::SavedVariableHooks {
 public:
  explicit Hooks(std::shared_ptr<State> state) : state_(std::move(state)) {}

  void call_pack_hook(const at::Tensor& tensor) override {
    slot_ = state_->pack(tensor);
    kept_.call_pack_hook(tensor);
  }
  at::Tensor call_unpack_hook() override { return state_->unpack(slot_, kept_); }

 private:
  std::shared_ptr<State> state_;
  SlotId slot_ = kNone;
  KeepingHooks kept_;
};

Rehearsal::Rehearsal(std::shared_ptr<const StepGraph> graph, const EncodeKey& key,
                     std::shared_ptr<DeviceDoubt> doubt)
    : state_(std::make_shared<State>(std::move(graph), key, std::move(doubt))) {}

Rehearsal::~Rehearsal() {
  state_->end();
}

std::unique_ptr<torch::autograd::SavedVariableHooks> Rehearsal::make_hooks() {
  return std::make_unique<Hooks>(state_);
}

void Rehearsal::rehearse(const std::shared_ptr<const TreatmentPlan>& plan) {
  state_->rehearse(plan);
}

int64_t Rehearsal::asked() const {
  return state_->asked();
}

bool Rehearsal::complete() const {
  return state_->complete();
}

void Rehearsal::end() {
  state_->end();
}

}  // namespace noisemark::memopt
