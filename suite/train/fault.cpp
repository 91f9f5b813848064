#include "suite/train/fault.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/full_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "memopt/autograd/saved_tensor_scope.h"
#include "reports/base/quantity.h"

namespace noisemark::suite {

std::string fault_words(const Fault& fault) {
  std::vector<std::string> words;
  if (fault.leaked_bytes > 0) {
    words.push_back(reports::format_bytes(fault.leaked_bytes) + " leaked in every forward pass");
  }
  if (fault.loss_factor) words.push_back(fmt::format("loss times {}", *fault.loss_factor));
  if (fault.lost_bytes > 0) {
    words.push_back(reports::format_bytes(fault.lost_bytes) + " of a weight not counted");
  }
  if (fault.halved_from) {
    words.push_back(fmt::format("half of the batch from step {} on", *fault.halved_from));
  }
  if (fault.redrawn_dropout) words.emplace_back("masks of dropout drawn again in backward");
  if (fault.coarse_saving) words.emplace_back("activations at 2 bits without scales of groups");
  if (fault.undivided_loss) words.emplace_back("loss not divided by the micro-batches");
  if (fault.late_average) words.emplace_back("average one step behind");
  return fmt::format("{}", fmt::join(words, ", "));
}

namespace {

constexpr int64_t kActivationDimensions = 4;  // [N, C, H, W]
constexpr double kLargestCode = 3;            // largest code of 2 bits

at::Tensor drawn_again(const at::Tensor& mask, double keep_frac) {
  return at::bernoulli(at::full_like(mask, keep_frac)).div_(keep_frac);
}

at::Tensor at_two_bits(const at::Tensor& value) {
  const at::Tensor least = value.min();
  const at::Tensor step = (value.max() - least) / kLargestCode;
  if (step.item<double>() == 0) return value;
  return ((value - least) / step).round_().mul_(step).add_(least);
}

}  // namespace

/// Uses the hooks of the sink within, or what autograd does by itself.
class BrokenSaving::Hooks final : public torch::autograd::SavedVariableHooks {
 public:
  Hooks(const BrokenSaving& saving, std::unique_ptr<torch::autograd::SavedVariableHooks> inner)
      : saving_(saving), inner_(memopt::or_keeping(std::move(inner))) {}
  void call_pack_hook(const at::Tensor& tensor) override { inner_->call_pack_hook(tensor); }
  at::Tensor call_unpack_hook() override { return saving_.broken(inner_->call_unpack_hook()); }

 private:
  const BrokenSaving& saving_;
  std::unique_ptr<torch::autograd::SavedVariableHooks> inner_;
};

BrokenSaving::BrokenSaving(memopt::SavedTensorSink& inner, const Fault& fault,
                           std::vector<at::Tensor> parameters, double keep_frac)
    : inner_(inner), fault_(fault), parameters_(std::move(parameters)), keep_frac_(keep_frac) {}

std::unique_ptr<torch::autograd::SavedVariableHooks> BrokenSaving::make_hooks() {
  return std::make_unique<Hooks>(*this, inner_.make_hooks());
}

bool BrokenSaving::is_parameter(const at::Tensor& value) const {
  return std::any_of(parameters_.begin(), parameters_.end(), [&](const at::Tensor& parameter) {
    return parameter.storage().is_alias_of(value.storage());
  });
}

bool BrokenSaving::is_dropout_mask(const at::Tensor& value) const {
  if (keep_frac_ >= 1 || !value.is_floating_point() || value.dim() != kActivationDimensions) {
    return false;
  }
  // All that dropout multiplies by; an activation has other values too.
  const at::Tensor kept = at::full_like(value, 1).div_(keep_frac_);
  return (value.eq(0).logical_or_(value.eq(kept))).all().item<bool>() &&
         value.ne(0).any().item<bool>();
}

at::Tensor BrokenSaving::broken(const at::Tensor& value) const {
  if (!value.defined() || value.numel() == 0 || is_parameter(value)) return value;
  const at::NoGradGuard no_grad;
  if (fault_.redrawn_dropout && is_dropout_mask(value)) return drawn_again(value, keep_frac_);
  const bool activation = value.is_floating_point() && value.dim() == kActivationDimensions;
  return fault_.coarse_saving && activation ? at_two_bits(value) : value;
}

bool breaks_saving(const Fault& fault) {
  return fault.redrawn_dropout || fault.coarse_saving;
}

ShortCount::ShortCount(memopt::AllocationSource& source, const at::Tensor& tensor,
                       int64_t lost_bytes)
    : source_(source), tensor_(tensor), lost_bytes_(lost_bytes) {}

memopt::AllocationBaseline ShortCount::attach(memopt::AllocationListener& listener) {
  return source_.attach(listener);
}

std::optional<memopt::Block> ShortCount::find(const c10::StorageImpl& storage) const {
  std::optional<memopt::Block> block = source_.find(storage);
  if (block && &storage == tensor_.storage().unsafeGetStorageImpl()) block->bytes -= lost_bytes_;
  return block;
}

}  // namespace noisemark::suite
