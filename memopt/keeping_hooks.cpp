#include "memopt/keeping_hooks.h"

#include <c10/util/Exception.h>

namespace noisemark::memopt {

void KeepingHooks::call_pack_hook(const at::Tensor& tensor) {
  kept_ = tensor.tensor_data();  // shares the version counter, unlike detach() of inference code
  version_ = tensor._version();
}

at::Tensor KeepingHooks::call_unpack_hook() {
  TORCH_CHECK(kept_._version() == version_, "a tensor of shape ", kept_.sizes(),
              " that backward needs was changed in place after it was saved: it is at version ",
              kept_._version(), ", and version ", version_, " was saved");
  return kept_;
}

}  // namespace noisemark::memopt
