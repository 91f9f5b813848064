#include "memopt/replay/fits.h"

#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <typeindex>
#include <vector>

namespace noisemark::memopt {
namespace {

bool is_the_recorded(const RecordedNode& node, const RecordedNode& recorded) {
  return node.type == recorded.type && node.inputs == recorded.inputs &&
         (recorded.numbers_vary || node.numbers == recorded.numbers) &&
         (recorded.call_varies || node.call == recorded.call);
}

}  // namespace

bool PathMatch::fits(const at::Tensor& tensor, SlotId slot) {
  const RecordedSlot& recorded = graph_.slots[static_cast<size_t>(slot)];
  return looks_the_same(tensor, recorded) && was_made_the_same(tensor, recorded);
}

bool PathMatch::looks_the_same(const at::Tensor& tensor, const RecordedSlot& recorded) const {
  const RecordedValue& value = graph_.values[static_cast<size_t>(recorded.value)];
  const auto& node = tensor.grad_fn();
  const std::type_index type = node ? std::type_index(typeid(*node)) : typeid(void);
  if (tensor.sizes() != at::IntArrayRef(value.sizes) || tensor.scalar_type() != value.dtype ||
      tensor.strides() != at::IntArrayRef(value.strides) || type != recorded.node) {
    return false;
  }
  // The versions of what the step did not make, such as weights, count the steps.
  const bool external = graph_.storages[static_cast<size_t>(value.storage)].external;
  if (!external && recorded.version != kNone && tensor._version() != recorded.version) return false;
  // Another layer of the same shape is another path.
  return value.origin != RecordedValue::Origin::kModel ||
         (tensor.storage().unsafeGetStorageImpl() ==
              value.model_tensor.storage().unsafeGetStorageImpl() &&
          tensor.storage_offset() == value.storage_offset);
}

bool PathMatch::was_made_the_same(const at::Tensor& tensor, const RecordedSlot& recorded) {
  const auto met = static_cast<std::ptrdiff_t>(history_.nodes().size());
  const RecordedEdge came_from = history_.read(tensor);
  const std::vector<RecordedNode>& nodes = history_.nodes();
  return came_from == recorded.came_from && nodes.size() == recorded.nodes &&
         std::equal(nodes.begin() + met, nodes.end(), graph_.nodes.begin() + met, is_the_recorded);
}

}  // namespace noisemark::memopt
