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

/// The places of the running statistics among the arguments. Batch norm moves its buffers without
/// saying so in its schema.
std::vector<size_t> running_statistics(const RecordedOperator& recorded) {
  const std::vector<c10::Argument>& schema = recorded.handle.schema().arguments();
  std::vector<size_t> places;
  for (size_t i = 0; i < schema.size() && i < recorded.arguments.size(); ++i) {
    const std::vector<ValueId>& values = recorded.arguments[i].values;
    const bool given = !values.empty() && values.front() != kNone;
    if (given && schema[i].name().starts_with("running_")) places.push_back(i);
  }
  return places;
}

/// Returns nothing for an operator that does not ask whether it trains.
std::optional<bool> trains(const RecordedOperator& recorded) {
  const std::vector<c10::Argument>& schema = recorded.handle.schema().arguments();
  for (size_t i = 0; i < schema.size() && i < recorded.arguments.size(); ++i) {
    const c10::IValue& constant = recorded.arguments[i].constant;
    if (schema[i].name() == "training" && constant.isBool()) return constant.toBool();
  }
  return std::nullopt;
}

/// Batch norm that trains computes the statistics of its input, and one that does not only reads
/// those that run: neither needs to move them to give its results again.
bool moves_statistics_for_good(const RecordedOperator& recorded) {
  return !running_statistics(recorded).empty() && !trains(recorded).has_value();
}

/// The contents of such a tensor are not known: they may be filled by other means than operators.
bool gives_raw_memory(const RecordedOperator& recorded) {
  return recorded.name.starts_with("aten::empty") || recorded.name.starts_with("aten::new_empty");
}

/// An operator of another library may draw from any generator, or keep a state of its own, and
/// seldom says so by a tag. With this one its author says that the schema tells all that it does.
bool keeps_to_its_schema(const RecordedOperator& recorded) {
  return recorded.name.starts_with("aten::") || recorded.name.starts_with("prim") ||
         recorded.handle.hasTag(at::Tag::pt2_compliant_tag);
}

}  // namespace

bool is_repeatable(const RecordedOperator& recorded) {
  const bool understood = recorded.overwrites != kNone || !recorded.handle.schema().is_mutable();
  return understood && keeps_to_its_schema(recorded) && !draws_random_numbers(recorded) &&
         !moves_statistics_for_good(recorded) && !gives_raw_memory(recorded);
}

RecordedOperator without_running_statistics(const RecordedOperator& recorded) {
  RecordedOperator call = recorded;
  if (!trains(recorded).value_or(false)) return call;
  for (const size_t place : running_statistics(recorded)) call.arguments[place].values = {kNone};
  return call;
}

void mark_moved_statistics(StepGraph& graph) {
  for (const RecordedOperator& recorded : graph.operators) {
    if (!trains(recorded).value_or(true)) continue;
    for (const size_t place : running_statistics(recorded)) {
      const ValueId moved = recorded.arguments[place].values.front();
      const StorageId storage = graph.values[static_cast<size_t>(moved)].storage;
      graph.storages[static_cast<size_t>(storage)].written_in_place = true;
    }
  }
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

namespace {

/// Returns whether the constants are those of native_dropout(Tensor input, float p, bool? train).
bool has_known_arguments(const RecordedOperator& op) {
  if (op.arguments.size() != 3 || op.results.size() != 2) return false;
  const c10::IValue& train = op.arguments[2].constant;
  return op.arguments[0].kind == Argument::Kind::kTensor && op.arguments[1].constant.isDouble() &&
         (train.isNone() || train.isBool());
}

bool is_saved(const StepGraph& graph, ValueId id) {
  return id != kNone && !graph.values[static_cast<size_t>(id)].slots.empty();
}

}  // namespace

std::optional<MaskedDropout> masked_dropout_of(const StepGraph& graph, OperatorId id) {
  const RecordedOperator& op = graph.operators[static_cast<size_t>(id)];
  if (op.name != "aten::native_dropout" || !has_known_arguments(op)) return std::nullopt;
  const c10::IValue& train = op.arguments[2].constant;
  MaskedDropout dropout;
  dropout.input = op.arguments[0].values.front();
  dropout.result = op.results[0];
  dropout.mask = op.results[1];
  if (train.isNone() || train.toBool()) dropout.keep = 1 - op.arguments[1].constant.toDouble();
  if (dropout.input == kNone || dropout.result == kNone || !is_saved(graph, dropout.mask)) {
    return std::nullopt;
  }
  // A dropout that drops everything writes zeros, whatever the signs were.
  return dropout.keep > 0 ? std::optional(dropout) : std::nullopt;
}

void mark_masked_dropouts(StepGraph& graph) {
  for (size_t op = 0; op < graph.operators.size(); ++op) {
    if (masked_dropout_of(graph, static_cast<OperatorId>(op)))
      graph.operators[op].repeatable = true;
  }
}

}  // namespace noisemark::memopt
