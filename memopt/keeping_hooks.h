#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <cstdint>
#include <string>
#include <typeinfo>

namespace noisemark::memopt {

/// Throws the c10::Error of a tensor that was changed in place after it was saved. `what` names it
/// ("the result of aten::silu"), `saver` who saved it ("aten::mul").
[[noreturn]] void refuse_changed(const at::Tensor& tensor, int64_t saved_version,
                                 const std::string& what, const std::string& saver);

/// Does what autograd does without hooks: keeps the tensor, and refuses to hand it out when it was
/// changed in place since (with hooks installed, autograd itself no longer checks). Keeps no
/// history, so an operator's output can be kept without a cycle.
class KeepingHooks final : public torch::autograd::SavedVariableHooks {
 public:
  void call_pack_hook(const at::Tensor& tensor) override;
  /// May be called more than once. Throws c10::Error after a change in place, which names the
  /// autograd node that made the tensor.
  at::Tensor call_unpack_hook() override;

  [[nodiscard]] bool changed() const { return kept_._version() != version_; }
  /// The error of a change, for one who knows more than the node's name.
  [[noreturn]] void refuse(const std::string& what, const std::string& saver) const;

 private:
  at::Tensor kept_;
  int64_t version_ = 0;
  const std::type_info* made_by_ = nullptr;  ///< null: nothing that autograd knows
};

}  // namespace noisemark::memopt
