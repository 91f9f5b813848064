#include "memopt/record/operator_traits.h"

#include <ATen/core/enum_tag.h>

namespace noisemark::memopt {
namespace {

/// Attention and other operators with a dropout probability draw none at 0.
bool draws_random_numbers(const RecordedOperator& recorded) {
  if (!recorded.handle.hasTag(at::Tag::nondeterministic_seeded)) return false;
  const std::vector<c10::Argument>& schema = recorded.handle.schema().arguments();
  for (size_t i = 0; i < schema.size() && i < recorded.arguments.size(); ++i) {
    const c10::IValue& constant = recorded.arguments[i].constant;
    if (schema[i].name() == "dropout_p" && constant.isDouble()) return constant.toDouble() != 0;
  }
  return true;
}

/// Batch norm moves its buffers without saying so in its schema.
bool keeps_running_statistics(const RecordedOperator& recorded) {
  const std::vector<c10::Argument>& schema = recorded.handle.schema().arguments();
  for (size_t i = 0; i < schema.size() && i < recorded.arguments.size(); ++i) {
    const std::vector<ValueId>& values = recorded.arguments[i].values;
    const bool given = !values.empty() && values.front() != kNone;
    if (given && schema[i].name().starts_with("running_")) return true;
  }
  return false;
}

/// What is in it is nobody's statement: it may be filled by other means than operators.
bool gives_raw_memory(const RecordedOperator& recorded) {
  return recorded.name.starts_with("aten::empty") || recorded.name.starts_with("aten::new_empty");
}

}  // namespace

bool is_repeatable(const RecordedOperator& recorded) {
  const bool understood = recorded.overwrites != kNone || !recorded.handle.schema().is_mutable();
  return understood && !draws_random_numbers(recorded) && !keeps_running_statistics(recorded) &&
         !gives_raw_memory(recorded);
}

bool is_plain_list(const c10::IValue& input) {
  return input.isIntList() || input.isDoubleList() || input.isBoolList() ||
         (input.isList() && input.toListRef().empty());
}

std::vector<at::Tensor> tensors_of(const std::vector<c10::IValue>& outputs) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& output : outputs) {
    if (output.isTensor()) tensors.push_back(output.toTensor());
    if (!output.isTensorList()) continue;
    for (const at::Tensor& tensor : output.toTensorVector()) tensors.push_back(tensor);
  }
  return tensors;
}

}  // namespace noisemark::memopt
