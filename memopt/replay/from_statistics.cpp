#include "memopt/replay/from_statistics.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/jit_type.h>
#include <c10/core/TensorOptions.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace noisemark::memopt {
namespace {

constexpr std::string_view kSuffix = "_from_statistics";

bool same_type(const c10::Argument& a, const c10::Argument& b) {
  return *a.type() == *b.type();
}

bool is_tensor(const c10::Argument& argument) {
  return argument.type()->kind() == c10::TypeKind::TensorType;
}

/// `again` takes what `first` takes and what it gives from its second result on, and gives a
/// tensor.
bool fits(const c10::FunctionSchema& first, const c10::FunctionSchema& again) {
  const std::vector<c10::Argument>& taken = first.arguments();
  const std::vector<c10::Argument>& given = first.returns();
  const std::vector<c10::Argument>& arguments = again.arguments();
  if (given.size() < 2 || !std::all_of(given.begin(), given.end(), is_tensor)) return false;
  if (arguments.size() != taken.size() + given.size() - 1) return false;
  if (again.is_mutable() || again.returns().size() != 1) return false;
  const auto statistics = arguments.begin() + static_cast<std::ptrdiff_t>(taken.size());
  return is_tensor(again.returns().front()) &&
         std::equal(taken.begin(), taken.end(), arguments.begin(), same_type) &&
         std::all_of(statistics, arguments.end(), is_tensor);
}

std::optional<c10::OperatorHandle> companion_of(const RecordedOperator& op) {
  const c10::OperatorName& name = op.handle.operator_name();
  const std::optional<c10::OperatorHandle> found = c10::Dispatcher::singleton().findSchema(
      {name.name + std::string(kSuffix), name.overload_name});
  if (!found || !fits(op.handle.schema(), found->schema())) return std::nullopt;
  return found;
}

bool has_kernel(const c10::OperatorHandle& op, const RecordedValue& value, c10::Device device) {
  return op.hasComputedKernelForDispatchKey(
      c10::computeDispatchKey(value.dtype, c10::kStrided, device));
}

}  // namespace

std::optional<Recipe> from_statistics_recipe(const StepGraph& graph, ValueId id) {
  const RecordedValue& value = graph.values[static_cast<size_t>(id)];
  const RecordedOperator* producer = graph.producer_of(id);
  if (producer == nullptr || value.result_index != 0 || producer->overwrites != kNone ||
      !producer->repeatable) {
    return std::nullopt;
  }
  const std::optional<c10::OperatorHandle> companion = companion_of(*producer);
  const std::optional<c10::Device> device = graph.model_device();
  if (!companion || !device || !has_kernel(*companion, value, *device)) return std::nullopt;
  RecordedOperator call = *producer;
  call.handle = *companion;
  call.name += kSuffix;
  call.results = {id};
  for (size_t i = 1; i < producer->results.size(); ++i) {
    const ValueId statistic = producer->results[i];
    if (!graph.is_saved_by(statistic, value.producer)) return std::nullopt;
    call.arguments.push_back({Argument::Kind::kTensor, {}, {statistic}});
  }
  Recipe recipe = recipe_of_call(call);  // costs no more than what it replaces
  recipe.replaces = value.producer;
  recipe.is_shortcut = true;
  return recipe;
}

}  // namespace noisemark::memopt
