#include "memopt/keeping_hooks.h"

#include <c10/util/Exception.h>
#include <c10/util/Type.h>
#include <torch/csrc/autograd/function.h>

namespace noisemark::memopt {
namespace {

/// "the result of SiluBackward0", as autograd itself speaks of it.
std::string words_for(const std::type_info* made_by) {
  if (made_by == nullptr) return "a tensor without history";
  const std::string name = c10::demangle(made_by->name());
  const size_t scope = name.rfind("::");
  return "the result of " + (scope == std::string::npos ? name : name.substr(scope + 2));
}

}  // namespace

void refuse_changed(const at::Tensor& tensor, int64_t saved_version, const std::string& what,
                    const std::string& saver) {
  TORCH_CHECK(false, what, ", of shape ", tensor.sizes(), ", was changed in place after ", saver,
              " had saved it for backward: it is at version ", tensor._version(), ", and version ",
              saved_version, " was saved");
}

void KeepingHooks::call_pack_hook(const at::Tensor& tensor) {
  kept_ = tensor.tensor_data();  // shares the version counter, unlike detach() of inference code
  version_ = tensor._version();
  const auto& node = tensor.grad_fn();
  made_by_ = node ? &typeid(*node) : nullptr;
}

at::Tensor KeepingHooks::call_unpack_hook() {
  if (changed()) refuse(words_for(made_by_), "an operator");
  return kept_;
}

void KeepingHooks::refuse(const std::string& what, const std::string& saver) const {
  refuse_changed(kept_, version_, what, saver);
}

}  // namespace noisemark::memopt
