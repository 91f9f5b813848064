#include "memopt/value_traits.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "memopt/codecs/pool_map.h"

namespace noisemark::memopt {
namespace {

constexpr std::string_view kMaxPool = "aten::max_pool2d_with_indices";
constexpr int64_t kLargestKernel = 4;

const RecordedValue& value_at(const StepGraph& graph, ValueId id) {
  return graph.values[static_cast<size_t>(id)];
}

const RecordedStorage& storage_of(const StepGraph& graph, ValueId id) {
  return graph.storages[static_cast<size_t>(value_at(graph, id).storage)];
}

std::string_view saver_of(const StepGraph& graph, SlotId slot) {
  const OperatorId saved_by = graph.slots[static_cast<size_t>(slot)].saved_by;
  return saved_by == kNone ? std::string_view()
                           : graph.operators[static_cast<size_t>(saved_by)].name;
}

bool is_relu(std::string_view name) {
  return name == "aten::relu" || name == "aten::relu_";
}

/// A pair of rows and columns from a list of one or two.
std::optional<std::array<int64_t, 2>> pair_of(const Argument& argument) {
  if (argument.kind != Argument::Kind::kConstant || !argument.constant.isIntList()) return {};
  const std::vector<int64_t> list = argument.constant.toIntVector();
  if (list.empty() || list.size() > 2) return {};
  return std::array<int64_t, 2>{list.front(), list.back()};
}

bool is_empty_list(const Argument& argument) {
  return argument.kind == Argument::Kind::kConstant && argument.constant.isList() &&
         argument.constant.toListRef().empty();
}

/// Of max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode); no stride
/// is the kernel's.
std::optional<PoolGeometry> geometry_of(const StepGraph& graph, const RecordedOperator& pool) {
  const std::vector<Argument>& arguments = pool.arguments;
  if (arguments.size() < 5 || arguments[0].values.size() != 1) return {};
  const ValueId input = arguments[0].values.front();
  const auto kernel = pair_of(arguments[1]);
  const auto stride = is_empty_list(arguments[2]) ? kernel : pair_of(arguments[2]);
  const auto padding = pair_of(arguments[3]);
  const auto dilation = pair_of(arguments[4]);
  if (input == kNone || !kernel || !stride || !padding || !dilation) return {};
  const std::vector<int64_t>& sizes = value_at(graph, input).sizes;
  if (sizes.size() < 2 || std::max((*kernel)[0], (*kernel)[1]) > kLargestKernel) return {};
  return PoolGeometry{
      {sizes[sizes.size() - 2], sizes.back()}, *kernel, *stride, *padding, *dilation};
}

}  // namespace

bool is_real(at::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

bool is_statistic(const StepGraph& graph, ValueId id) {
  const RecordedValue& value = value_at(graph, id);
  const bool of_its_own = storage_of(graph, id).values.front() == id;
  return is_small_result(graph, id) || (value.result_index > 0 && of_its_own);
}

bool only_sign_is_asked_for(const StepGraph& graph, ValueId id) {
  const std::vector<ValueId>& values = storage_of(graph, id).values;
  return std::all_of(values.begin(), values.end(), [&](ValueId other) {
    const std::vector<SlotId>& slots = value_at(graph, other).slots;
    if (slots.empty()) return true;
    const RecordedOperator* producer = graph.producer_of(other);
    return producer != nullptr && is_relu(producer->name) &&
           std::all_of(slots.begin(), slots.end(), [&](SlotId slot) {
             const std::string_view saver = saver_of(graph, slot);
             return is_relu(saver) || saver == kMaxPool;
           });
  });
}

bool is_saved_by_convolution(const StepGraph& graph, ValueId id) {
  const std::vector<ValueId>& values = storage_of(graph, id).values;
  return std::any_of(values.begin(), values.end(), [&](ValueId other) {
    const std::vector<SlotId>& slots = value_at(graph, other).slots;
    return std::any_of(slots.begin(), slots.end(), [&](SlotId slot) {
      return saver_of(graph, slot).find("conv") != std::string_view::npos;
    });
  });
}

std::unique_ptr<Codec> pool_map_codec_of(const StepGraph& graph, ValueId id) {
  const RecordedOperator* producer = graph.producer_of(id);
  if (producer == nullptr || producer->name != kMaxPool || value_at(graph, id).result_index != 1) {
    return nullptr;
  }
  const std::optional<PoolGeometry> geometry = geometry_of(graph, *producer);
  return geometry ? make_pool_map_codec(*geometry) : nullptr;
}

}  // namespace noisemark::memopt
