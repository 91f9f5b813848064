#include "memopt/record/masked_dropout.h"

namespace noisemark::memopt {
namespace {

/// Whether the constants are those of native_dropout(Tensor input, float p, bool? train).
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
  // What drops everything writes zeros, whatever the signs were.
  return dropout.keep > 0 ? std::optional(dropout) : std::nullopt;
}

void mark_masked_dropouts(StepGraph& graph) {
  for (size_t op = 0; op < graph.operators.size(); ++op) {
    if (masked_dropout_of(graph, static_cast<OperatorId>(op)))
      graph.operators[op].repeatable = true;
  }
}

}  // namespace noisemark::memopt
