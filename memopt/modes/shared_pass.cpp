#include "memopt/modes/shared_pass.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "memopt/autograd/saved_tensor_scope.h"

namespace noisemark::memopt {

class PlannedMode::SharedPass::SharedHooks final : public torch::autograd::SavedVariableHooks {
 public:
  explicit SharedHooks(std::shared_ptr<SharedPass> pass) : pass_(std::move(pass)) {}
  ~SharedHooks() override {
    if (number_.has_value()) pass_->release(*number_);
  }
  SharedHooks(const SharedHooks&) = delete;
  SharedHooks& operator=(const SharedHooks&) = delete;

  void call_pack_hook(const at::Tensor& tensor) override { number_ = pass_->pack(tensor); }
  at::Tensor call_unpack_hook() override { return pass_->unpack(*number_); }

 private:
  std::shared_ptr<SharedPass> pass_;
  std::optional<size_t> number_;
};

PlannedMode::SharedPass::SharedPass(PlannedMode& mode, std::vector<Alternative> alternatives)
    : mode_(mode) {
  ways_.emplace_back();
  for (Alternative& alternative : alternatives) ways_.push_back({std::move(alternative), {}});
}

std::unique_ptr<torch::autograd::SavedVariableHooks> PlannedMode::SharedPass::make_hooks() {
  return std::make_unique<SharedHooks>(shared_from_this());
}

size_t PlannedMode::SharedPass::pack(const at::Tensor& tensor) {
  const std::lock_guard lock(mutex_);
  if (packed_ == 0) begin(tensor);
  for (Way& way : ways_) {
    way.hooks.resize(packed_ + 1);
    way.hooks.back() = hooks_of(way);
    way.hooks.back()->call_pack_hook(tensor);
  }
  drop_departed();
  return packed_++;
}

at::Tensor PlannedMode::SharedPass::unpack(size_t number) {
  std::shared_ptr<Hooks> hooks;
  {
    const std::lock_guard lock(mutex_);
    hooks = ways_.front().hooks[number];
  }
  return hooks->call_unpack_hook();
}

void PlannedMode::SharedPass::release(size_t number) {
  std::vector<std::shared_ptr<Hooks>> released;  // they go after the lock
  const std::lock_guard lock(mutex_);
  for (Way& way : ways_) {
    if (number < way.hooks.size()) released.push_back(std::move(way.hooks[number]));
  }
}

PlannedMode::Alternative PlannedMode::SharedPass::settle() {
  const std::lock_guard lock(mutex_);
  if (packed_ == 0) ways_.resize(1);
  const auto complete =
      std::find_if(ways_.begin(), ways_.end(), [this](const Way& way) { return is_complete(way); });
  const size_t chosen = complete == ways_.end() ? 0 : complete - ways_.begin();
  Way way = std::move(ways_[chosen]);
  for (const Way& other : ways_) {
    if (&other != &ways_[chosen] && is_own(other)) mode_.drop_pass();
  }
  ways_.clear();
  ways_.push_back({{}, std::move(way.hooks)});
  return std::move(way.alternative);
}

bool PlannedMode::SharedPass::departed(const Way& way) const {
  return is_own(way) ? mode_.has_departed() : way.alternative.pass->departed();
}

bool PlannedMode::SharedPass::is_complete(const Way& way) const {
  return is_own(way) ? mode_.is_complete() : way.alternative.pass->complete();
}

std::shared_ptr<torch::autograd::SavedVariableHooks> PlannedMode::SharedPass::hooks_of(
    const Way& way) const {
  return or_keeping(is_own(way) ? mode_.hooks_of_pass() : way.alternative.pass->make_hooks());
}

/// Leaves the ways that begin with the tensor; where none does, the mode's own. A pass that is
/// recorded is seldom of a kind that is known, but what other kinds begin as tells nothing.
void PlannedMode::SharedPass::begin(const at::Tensor& tensor) {
  std::erase_if(ways_, [&](const Way& way) {
    return !is_own(way) && !way.alternative.pass->begins_with(tensor);
  });
  const bool begins_as_another = std::any_of(ways_.begin(), ways_.end(), [](const Way& way) {
    return way.alternative.begins_like_others;
  });
  const bool watches = mode_.is<Recording>() && begins_as_another;
  if (ways_.size() > 1 && !watches && !mode_.begins_as_planned(tensor)) drop(ways_.begin());
  if (ways_.size() == 1) return;
  for (const Way& way : ways_) {
    plans_.push_back(is_own(way) ? mode_.followed_plan() : way.alternative.plan);
  }
}

/// The first goes on and keeps everything where the pass has left all ways.
void PlannedMode::SharedPass::drop_departed() {
  const bool any_left =
      std::any_of(ways_.begin(), ways_.end(), [this](const Way& way) { return !departed(way); });
  for (auto way = ways_.begin(); way != ways_.end() && ways_.size() > 1;) {
    const bool goes = any_left ? departed(*way) : way != ways_.begin();
    way = goes ? drop(way) : way + 1;
  }
}

std::vector<PlannedMode::SharedPass::Way>::iterator PlannedMode::SharedPass::drop(
    std::vector<Way>::iterator way) {
  if (is_own(*way)) mode_.drop_pass();
  return ways_.erase(way);
}

}  // namespace noisemark::memopt
