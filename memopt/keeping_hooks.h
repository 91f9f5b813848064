#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <cstdint>

namespace noisemark::memopt {

/// Does what autograd does without hooks: keeps the tensor, and refuses to hand it out when it was
/// changed in place since (with hooks installed, autograd itself no longer checks). Keeps no
/// history, so an operator's output can be kept without a cycle.
class KeepingHooks final : public torch::autograd::SavedVariableHooks {
 public:
  void call_pack_hook(const at::Tensor& tensor) override;
  /// May be called more than once. Throws c10::Error after a change in place.
  at::Tensor call_unpack_hook() override;

 private:
  at::Tensor kept_;
  int64_t version_ = 0;
};

}  // namespace noisemark::memopt
