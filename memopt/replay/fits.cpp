#include "memopt/replay/fits.h"

#include <torch/csrc/autograd/function.h>

namespace noisemark::memopt {

bool fits(const at::Tensor& tensor, const StepGraph& graph, SlotId slot) {
  const RecordedSlot& recorded = graph.slots[static_cast<size_t>(slot)];
  const RecordedValue& value = graph.values[static_cast<size_t>(recorded.value)];
  const auto node = tensor.grad_fn();
  const std::type_index type = node ? std::type_index(typeid(*node)) : typeid(void);
  if (tensor.sizes() != at::IntArrayRef(value.sizes) || tensor.scalar_type() != value.dtype ||
      tensor.strides() != at::IntArrayRef(value.strides) || type != recorded.node) {
    return false;
  }
  // Another layer of the same shape is another path.
  return value.origin != RecordedValue::Origin::kModel ||
         (tensor.storage().unsafeGetStorageImpl() ==
              value.model_tensor.storage().unsafeGetStorageImpl() &&
          tensor.storage_offset() == value.storage_offset);
}

}  // namespace noisemark::memopt
