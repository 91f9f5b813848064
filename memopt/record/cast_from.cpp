#include "memopt/record/cast_from.h"

#include <torch/csrc/autograd/generated/Functions.h>

#include "memopt/record/node_numbers.h"

namespace noisemark::memopt {

std::optional<at::ScalarType> cast_from(const at::Tensor& tensor) {
  const at::TensorBase& result = tensor.is_view() ? tensor._base() : tensor;
  const auto& node = result.grad_fn();
  if (node == nullptr || !is_cast(*node) || result.scalar_type() != tensor.scalar_type() ||
      result._version() != 0 || result.nbytes() != result.storage().nbytes()) {
    return std::nullopt;
  }
  const auto& cast = static_cast<const torch::autograd::generated::ToCopyBackward0&>(*node);
  return c10::typeMetaToScalarType(cast.self_options.dtype());
}

}  // namespace noisemark::memopt
