#include "memopt/treatment/recipe.h"

#include <ATen/ExpandUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/jit_type.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/mul.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memopt/accounting/allocation_log.h"
#include "memopt/record/operator_traits.h"
#include "memopt/treatment/norm_chain.h"

namespace noisemark::memopt {
namespace {

std::vector<ValueId> distinct_inputs(const RecordedOperator& recorded) {
  std::vector<ValueId> inputs;
  for (const Argument& argument : recorded.arguments) {
    for (const ValueId value : argument.values) {
      if (value == kNone || std::find(inputs.begin(), inputs.end(), value) != inputs.end())
        continue;
      inputs.push_back(value);
    }
  }
  return inputs;
}

/// An argument whose tensors are named by their place among the recipe's inputs.
struct BoundArgument {
  Argument::Kind kind;
  c10::IValue constant;
  std::vector<size_t> places;  ///< kUndefined: an undefined tensor
};
constexpr size_t kUndefined = static_cast<size_t>(-1);

std::vector<BoundArgument> bound_arguments(const RecordedOperator& recorded,
                                           const std::vector<ValueId>& inputs) {
  std::vector<BoundArgument> bound;
  for (const Argument& argument : recorded.arguments) {
    BoundArgument one{argument.kind, argument.constant, {}};
    for (const ValueId value : argument.values) {
      const auto place = std::find(inputs.begin(), inputs.end(), value);
      one.places.push_back(value == kNone ? kUndefined
                                          : static_cast<size_t>(place - inputs.begin()));
    }
    bound.push_back(std::move(one));
  }
  return bound;
}

at::Tensor tensor_at(const std::vector<at::Tensor>& inputs, size_t place) {
  return place == kUndefined ? at::Tensor() : inputs[place];
}

c10::IValue value_of(const BoundArgument& argument, const std::vector<at::Tensor>& inputs) {
  switch (argument.kind) {
    case Argument::Kind::kConstant:
      return argument.constant;
    case Argument::Kind::kTensor:
      return tensor_at(inputs, argument.places.front());
    case Argument::Kind::kTensorList:
      break;
  }
  std::vector<at::Tensor> list;
  for (const size_t place : argument.places) list.push_back(tensor_at(inputs, place));
  return list;
}

std::vector<at::Tensor> flattened(const torch::jit::Stack& stack) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : stack) {
    if (value.isTensor()) tensors.push_back(value.toTensor());
    if (!value.isTensorList()) continue;
    for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(tensor);
  }
  return tensors;
}

/// A copy of `part` in memory of its own, its dimensions in the same order there. The order of the
/// whole rather than of what it was made from: both are then copied run by run, and not element by
/// element where a concatenation mixed two orders.
at::Tensor copy_of(const at::Tensor& part) {
  at::Tensor copy = at::empty_strided(
      part.sizes(), at::infer_dense_strides(part.sizes(), part.strides()), part.options());
  copy.copy_(part);
  return copy;
}

bool has_own_memory(const RecordedValue& value) {
  // Strides of a view into something larger could not be given to a tensor of its own.
  int64_t extent = 1;
  for (size_t d = 0; d < value.sizes.size(); ++d) {
    extent += (value.sizes[d] - 1) * value.strides[d];
  }
  int64_t count = 1;
  for (const int64_t size : value.sizes) count *= size;
  return extent == count;
}

std::optional<Slice> slice_of_cat(const StepGraph& graph, const RecordedOperator& cat,
                                  ValueId input) {
  if (cat.arguments.size() != 2 || !cat.arguments[1].constant.isInt()) return {};
  const std::vector<ValueId>& parts = cat.arguments[0].values;
  int64_t begin = 0;
  int64_t dim = cat.arguments[1].constant.toInt();
  for (const ValueId part : parts) {
    if (part == kNone) return {};
    const RecordedValue& value = graph.values[static_cast<size_t>(part)];
    const auto rank = static_cast<int64_t>(value.sizes.size());
    if (dim < 0) dim += rank;
    if (dim >= rank) return {};  // LibTorch skips empty one-dimensional parts
    const int64_t length = value.sizes[static_cast<size_t>(dim)];
    if (part == input) {
      if (!has_own_memory(value)) return {};
      return Slice{input, [=](const at::Tensor& whole) {
                     return copy_of(whole.narrow(dim, begin, length));
                   }};
    }
    begin += length;
  }
  return {};
}

std::optional<Slice> slice_of_padding(const StepGraph& graph, const RecordedOperator& pad,
                                      ValueId input) {
  const RecordedValue& source = graph.values[static_cast<size_t>(input)];
  if (pad.arguments.size() < 2 || !pad.arguments[1].constant.isIntList() ||
      !has_own_memory(source)) {
    return {};
  }
  // Pairs (before, after), the last dimension first; negative ones crop, and lose values.
  const std::vector<int64_t> pads = pad.arguments[1].constant.toIntVector();
  if (std::any_of(pads.begin(), pads.end(), [](int64_t n) { return n < 0; })) return {};
  return Slice{input, [=, sizes = source.sizes](const at::Tensor& padded) {
                 at::Tensor part = padded;
                 for (size_t i = 0; i + 1 < pads.size(); i += 2) {
                   const size_t dim = sizes.size() - 1 - i / 2;
                   part = part.narrow(static_cast<int64_t>(dim), pads[i], sizes[dim]);
                 }
                 return copy_of(part);
               }};
}

std::optional<Slice> slice_of_upsampling(const StepGraph& graph, const RecordedValue& whole,
                                         ValueId input) {
  const RecordedValue& source = graph.values[static_cast<size_t>(input)];
  if (source.sizes.size() != 4 || whole.sizes.size() != 4 || !has_own_memory(source)) return {};
  const int64_t rows = whole.sizes[2] / source.sizes[2];
  const int64_t columns = whole.sizes[3] / source.sizes[3];
  if (rows * source.sizes[2] != whole.sizes[2] || columns * source.sizes[3] != whole.sizes[3]) {
    return {};
  }
  return Slice{input, [=](const at::Tensor& upsampled) {
                 return copy_of(
                     upsampled.slice(2, 0, std::nullopt, rows).slice(3, 0, std::nullopt, columns));
               }};
}

/// The factor by which dropout's kernels multiply; CUDA's divide in the type in which they compute.
double scale_of(const at::Tensor& input, double keep) {
  const bool in_float = input.is_cuda() && input.scalar_type() != at::kDouble;
  return in_float ? static_cast<double>(1.0F / static_cast<float>(keep)) : 1 / keep;
}

Recipe dropout_recipe(const RecordedOperator& recorded, OperatorId id,
                      const MaskedDropout& dropout) {
  Recipe recipe;
  recipe.name = recorded.name;
  recipe.replaces = id;
  recipe.cost_ns = recorded.cost_ns;
  recipe.inputs = {dropout.input, dropout.mask};
  recipe.results = {dropout.result};
  // It multiplies by the mask first: that is exact, and the one rounding is then the operator's
  // own.
  recipe.run = [name = recorded.name, keep = dropout.keep](const std::vector<at::Tensor>& inputs) {
    const OperatorCall call(name);
    return std::vector{at::mul(inputs[0], inputs[1]).mul_(scale_of(inputs[0], keep))};
  };
  return recipe;
}

}  // namespace

Recipe recipe_of_call(const RecordedOperator& call) {
  Recipe recipe;
  recipe.name = call.name;
  recipe.cost_ns = call.cost_ns;
  recipe.inputs = distinct_inputs(call);
  recipe.results = call.results;
  recipe.run = [handle = call.handle, name = call.name, overwrites = call.overwrites,
                arguments =
                    bound_arguments(call, recipe.inputs)](const std::vector<at::Tensor>& inputs) {
    torch::jit::Stack stack;
    stack.reserve(arguments.size());
    for (const BoundArgument& argument : arguments) stack.push_back(value_of(argument, inputs));
    // Others may still need what is written over.
    if (overwrites != kNone) {
      c10::IValue& written = stack[static_cast<size_t>(overwrites)];
      const at::Tensor before = written.toTensor();
      const at::Tensor copy = at::empty_strided(before.sizes(), before.strides(), before.options());
      written = copy.copy_(before);
    }
    const OperatorCall frame(name);
    handle.callBoxed(stack);
    return flattened(stack);
  };
  return recipe;
}

Recipe replay_recipe(const StepGraph& graph, OperatorId id) {
  const RecordedOperator& recorded = graph.operators[static_cast<size_t>(id)];
  TORCH_CHECK(recorded.repeatable, recorded.name, " cannot be repeated");
  if (const auto dropout = masked_dropout_of(graph, id)) {
    return dropout_recipe(recorded, id, *dropout);
  }
  Recipe recipe = recipe_of_call(without_running_statistics(recorded));
  recipe.replaces = id;
  return recipe;
}

std::optional<Slice> slice_of_input(const StepGraph& graph, ValueId whole, ValueId input) {
  const RecordedOperator* producer = graph.producer_of(whole);
  if (producer == nullptr) return {};
  if (producer->name == "aten::cat") return slice_of_cat(graph, *producer, input);
  if (producer->name == "aten::constant_pad_nd") return slice_of_padding(graph, *producer, input);
  if (producer->name == "aten::upsample_nearest2d") {
    return slice_of_upsampling(graph, graph.values[static_cast<size_t>(whole)], input);
  }
  return {};
}

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

RecipeBook::RecipeBook(std::shared_ptr<const StepGraph> graph,
                       std::map<ValueId, int64_t> shortcut_ns)
    : graph_(std::move(graph)),
      shortcut_ns_(std::move(shortcut_ns)),
      replays_(graph_->operators.size()),
      shortcuts_(graph_->values.size()),
      looked_up_(graph_->values.size(), false) {}

const std::shared_ptr<const Recipe>& RecipeBook::replay(OperatorId id) {
  std::shared_ptr<const Recipe>& known = replays_[static_cast<size_t>(id)];
  if (known == nullptr) known = std::make_shared<const Recipe>(replay_recipe(*graph_, id));
  return known;
}

const std::shared_ptr<const Recipe>& RecipeBook::shortcut(ValueId id) {
  const auto at = static_cast<size_t>(id);
  if (!looked_up_[at]) {
    looked_up_[at] = true;
    std::optional<Recipe> recipe = norm_chain_recipe(*graph_, id);
    if (!recipe) recipe = from_statistics_recipe(*graph_, id);
    if (recipe) {
      const auto measured = shortcut_ns_.find(id);
      if (measured != shortcut_ns_.end()) recipe->cost_ns = measured->second;
      shortcuts_[at] = std::make_shared<const Recipe>(*std::move(recipe));
    }
  }
  return shortcuts_[at];
}

}  // namespace noisemark::memopt
