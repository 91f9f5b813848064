#include "memopt/modes/policies.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "memopt/codecs/codecs.h"

namespace noisemark::memopt {
namespace {

/// The pool lends pieces of a few slabs, so some of it is lost between them.
constexpr int64_t kSlackShare = 8;
constexpr int64_t kLeastSlack = 1 << 20;

}  // namespace

std::shared_ptr<const HostOffload> OffloadPool::of(const StepGraph& graph, int64_t bytes) {
  const auto of_model = std::find_if(
      graph.values.begin(), graph.values.end(),
      [](const RecordedValue& value) { return value.origin == RecordedValue::Origin::kModel; });
  if (of_model == graph.values.end()) return nullptr;
  const c10::Device device = of_model->model_tensor.device();
  const int64_t needed = bytes + std::max(bytes / kSlackShare, kLeastSlack);
  const int64_t capacity = std::min(needed, limit_bytes_.value_or(needed));
  if (pool_ == nullptr || device_ != device || capacity_bytes_ != capacity) {
    pool_ = make_host_offload(device, capacity);
    device_ = device;
    capacity_bytes_ = capacity;
  }
  return pool_;
}

std::optional<HostOffloadUsage> OffloadPool::usage() const {
  return pool_ == nullptr ? std::nullopt : std::optional(pool_->usage());
}

std::set<StorageId> OffloadPool::take_refused() const {
  if (pool_ == nullptr) return {};
  const std::set<int64_t> keys = pool_->take_refused();
  std::set<StorageId> storages;
  for (const int64_t key : keys) storages.insert(static_cast<StorageId>(key));
  return storages;
}

namespace {

constexpr std::string_view kMaxPool = "aten::max_pool2d_with_indices";
constexpr int64_t kLargestPoolKernel = 4;

const RecordedStorage& storage_of(const StepGraph& graph, ValueId id) {
  return graph.storages[static_cast<size_t>(graph.value(id).storage)];
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

/// Reads max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode); no
/// stride is the kernel's.
std::optional<PoolGeometry> geometry_of(const StepGraph& graph, const RecordedOperator& pool) {
  const std::vector<Argument>& arguments = pool.arguments;
  if (arguments.size() < 5 || arguments[0].values.size() != 1) return {};
  const ValueId input = arguments[0].values.front();
  const auto kernel = pair_of(arguments[1]);
  const auto stride = is_empty_list(arguments[2]) ? kernel : pair_of(arguments[2]);
  const auto padding = pair_of(arguments[3]);
  const auto dilation = pair_of(arguments[4]);
  if (input == kNone || !kernel || !stride || !padding || !dilation) return {};
  const std::vector<int64_t>& sizes = graph.value(input).sizes;
  if (sizes.size() < 2 || std::max((*kernel)[0], (*kernel)[1]) > kLargestPoolKernel) return {};
  return PoolGeometry{
      {sizes[sizes.size() - 2], sizes.back()}, *kernel, *stride, *padding, *dilation};
}

}  // namespace

bool is_real(at::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

bool is_statistic(const StepGraph& graph, ValueId id) {
  const RecordedValue& value = graph.value(id);
  const bool of_its_own = storage_of(graph, id).values.front() == id;
  return value.small_result || (value.result_index > 0 && of_its_own);
}

bool only_sign_is_asked_for(const StepGraph& graph, ValueId id) {
  const std::vector<ValueId>& values = storage_of(graph, id).values;
  return std::all_of(values.begin(), values.end(), [&](ValueId other) {
    const std::vector<SlotId>& slots = graph.value(other).slots;
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
    const std::vector<SlotId>& slots = graph.value(other).slots;
    return std::any_of(slots.begin(), slots.end(), [&](SlotId slot) {
      return saver_of(graph, slot).find("conv") != std::string_view::npos;
    });
  });
}

bool is_any_value(const StepGraph& /*graph*/, ValueId /*id*/) {
  return true;
}

std::unique_ptr<Codec> pool_map_codec_of(const StepGraph& graph, ValueId id) {
  const RecordedOperator* producer = graph.producer_of(id);
  if (producer == nullptr || producer->name != kMaxPool || graph.value(id).result_index != 1) {
    return nullptr;
  }
  const std::optional<PoolGeometry> geometry = geometry_of(graph, *producer);
  return geometry ? make_pool_map_codec(*geometry) : nullptr;
}

namespace {

/// Room for these fractions of the elements. The step that is verified chooses; a little more than
/// what it needs is needed later.
constexpr std::array<double, 4> kSparseRooms = {0.35, 0.5, 0.65, 0.8};
constexpr double kSparseMapBits = 1 + 1.0 / 32;
constexpr size_t kSparseValues = 2;  ///< the part that holds the values

/// A codec, and what it holds of each element where it takes the tensor.
struct Candidate {
  double bits = 0;
  std::shared_ptr<const Codec> codec;
};

/// Codecs that serve every tensor, made once: a plan asks for those of hundreds.
struct Shared {
  std::shared_ptr<const Codec> mask = make_mask_codec();
  std::shared_ptr<const Codec> sign = make_sign_codec();
  std::shared_ptr<const Codec> narrow = make_narrow_codec(at::kBFloat16);
  std::shared_ptr<const Codec> narrow_fp16 = make_narrow_codec(at::kHalf);
  std::array<std::shared_ptr<const Codec>, kSparseRooms.size()> sparse;

  Shared() {
    for (size_t i = 0; i < sparse.size(); ++i) sparse[i] = make_sparse_codec(kSparseRooms[i]);
  }
};

const Shared& shared() {
  static const Shared codecs;
  return codecs;
}

void add_gist(const StepGraph& graph, ValueId id, const Candidate& rounding,
              std::vector<Candidate>& to) {
  const at::ScalarType type = graph.values[static_cast<size_t>(id)].dtype;
  if (auto map = pool_map_codec_of(graph, id)) to.push_back({4, std::move(map)});
  if (!is_real(type)) return;
  if (only_sign_is_asked_for(graph, id)) to.push_back({1, shared().sign});
  const double own_bits = 8.0 * static_cast<double>(c10::elementSize(type));
  for (size_t i = 0; i < kSparseRooms.size(); ++i) {
    const double room = kSparseRooms[i];
    const std::shared_ptr<const Codec>& sparse = shared().sparse[i];
    to.push_back({kSparseMapBits + room * own_bits, sparse});
    if (rounding.codec == nullptr) continue;
    to.push_back({kSparseMapBits + room * rounding.bits,
                  make_chained_codec(sparse, rounding.codec, kSparseValues)});
  }
}

/// A value that was widened, as by autocast, goes back, where no rounding holds fewer bits.
void add_narrow(const Candidate& rounding, std::vector<Candidate>& to) {
  constexpr double kBits = 16;
  if (rounding.codec != nullptr && rounding.bits < kBits) return;
  to.push_back({kBits, shared().narrow});
  to.push_back({kBits, shared().narrow_fp16});
}

/// Returns the candidates that gain something, fewer bits first.
std::vector<Candidate> candidates_of(const ModeComposition& parts, const StepGraph& graph,
                                     ValueId id) {
  const at::ScalarType type = graph.values[static_cast<size_t>(id)].dtype;
  const bool exact = parts.gist() != nullptr || parts.replay() != nullptr;
  std::vector<Candidate> candidates;
  if (exact && (is_real(type) || type == at::kBool)) candidates.push_back({1, shared().mask});
  Candidate rounding;
  if (parts.rounding() != nullptr && is_real(type) && !is_statistic(graph, id) &&
      !storage_of(graph, id).exact) {
    rounding = {parts.rounding()->bits, parts.rounding()->make_codec()};
  }
  if (parts.gist() != nullptr) add_gist(graph, id, rounding, candidates);
  if (exact && type == at::kFloat) add_narrow(rounding, candidates);
  if (rounding.codec != nullptr) candidates.push_back(rounding);
  const double own_bits = 8.0 * static_cast<double>(c10::elementSize(type));
  std::erase_if(candidates, [&](const Candidate& c) { return c.bits >= own_bits; });
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.bits < b.bits; });
  return candidates;
}

class Choice {
 public:
  Choice(const ModeComposition& parts, std::shared_ptr<OffloadPool> host)
      : parts_(parts), host_(std::move(host)) {}

  std::vector<std::shared_ptr<const Codec>> operator()(const StepGraph& graph, ValueId id) const {
    std::vector<Candidate> candidates = candidates_of(parts_, graph, id);
    if (host_ != nullptr && parts_.offload()->goes_to_host(graph, id)) {
      send_away(graph, candidates);
    }
    std::vector<std::shared_ptr<const Codec>> codecs;
    codecs.reserve(candidates.size());
    for (Candidate& candidate : candidates) codecs.push_back(std::move(candidate.codec));
    return codecs;
  }

 private:
  /// Each to the host, then the value itself; where the host has no room, none of them: the pool
  /// remembers that.
  void send_away(const StepGraph& graph, std::vector<Candidate>& candidates) const {
    const std::shared_ptr<const Codec> host = host_->of(graph, bytes_away(graph));
    if (host == nullptr) return;
    std::vector<Candidate> away;
    for (const Candidate& candidate : candidates) {
      away.push_back({0, make_chained_codec(candidate.codec, host)});
    }
    away.push_back({0, host});
    candidates.insert(candidates.begin(), away.begin(), away.end());
  }

  /// The storages that go to the host, as they were saved.
  [[nodiscard]] int64_t bytes_away(const StepGraph& graph) const {
    std::set<StorageId> away;
    int64_t bytes = 0;
    for (const RecordedSlot& slot : graph.slots) {
      const StorageId storage = graph.values[static_cast<size_t>(slot.value)].storage;
      const RecordedStorage& recorded = graph.storages[static_cast<size_t>(storage)];
      if (recorded.external || recorded.kept_as_is || away.count(storage) != 0) continue;
      if (!parts_.offload()->goes_to_host(graph, slot.value)) continue;
      away.insert(storage);
      bytes += recorded.bytes;
    }
    return bytes;
  }

  ModeComposition parts_;
  std::shared_ptr<OffloadPool> host_;
};

}  // namespace

CodecChoice codec_choice(const ModeComposition& parts, std::shared_ptr<OffloadPool> host) {
  if (parts == ModeComposition{}) return {};
  return Choice(parts, std::move(host));
}

namespace {

/// One pass over their data, or none.
constexpr std::array<std::string_view, 71> kCheap = {
    "aten::_reshape_alias",
    "aten::_to_copy",
    "aten::_unsafe_view",
    "aten::abs",
    "aten::add",
    "aten::alias",
    "aten::as_strided",
    "aten::cat",
    "aten::chunk",
    "aten::clamp",
    "aten::clamp_min",
    "aten::clone",
    "aten::constant_pad_nd",
    "aten::contiguous",
    "aten::cos",
    "aten::cudnn_batch_norm",
    "aten::detach",
    "aten::div",
    "aten::exp",
    "aten::expand",
    "aten::gelu",
    "aten::hardswish",
    "aten::leaky_relu",
    "aten::linalg_vector_norm",
    "aten::log",
    "aten::max_pool2d_with_indices",
    "aten::maximum",
    "aten::minimum",
    "aten::mul",
    "aten::native_batch_norm",
    "aten::native_dropout",
    "aten::native_group_norm",
    "aten::native_layer_norm",
    "aten::neg",
    "aten::permute",
    "aten::pixel_shuffle",
    "aten::pixel_unshuffle",
    "aten::pow",
    "aten::reciprocal",
    "aten::relu",
    "aten::reshape",
    "aten::rsqrt",
    "aten::rsub",
    "aten::select",
    "aten::sigmoid",
    "aten::silu",
    "aten::sin",
    "aten::slice",
    "aten::softplus",
    "aten::split",
    "aten::split_with_sizes",
    "aten::sqrt",
    "aten::square",
    "aten::squeeze",
    "aten::stack",
    "aten::sub",
    "aten::sum",
    "aten::t",
    "aten::tanh",
    "aten::threshold",
    "aten::to",
    "aten::transpose",
    "aten::unbind",
    "aten::unsafe_chunk",
    "aten::unsafe_split",
    "aten::unsqueeze",
    "aten::upsample_nearest2d",
    "aten::view",
    "aten::where",
    "noisemark::group_norm_act",
    "noisemark::rms_norm_act",
};
static_assert(std::is_sorted(kCheap.begin(), kCheap.end()));

/// A segment with one of these computes attention.
constexpr std::array<std::string_view, 5> kAttention = {
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_softmax",
};

bool is_attention(const StepGraph& /*graph*/, const RecordedOperator& op) {
  // Names of different lengths are told apart without being read, and this is asked for each pair
  // of operators.
  return std::find(kAttention.begin(), kAttention.end(), op.name) != kAttention.end();
}

/// The module around a block of attention, "layers.0" of "layers.0.attention"; the block itself
/// where it is the item of a list, as "layers.0" is.
std::string_view layer_of(std::string_view segment) {
  const size_t dot = segment.rfind('.');
  if (dot == std::string_view::npos ||
      segment.find_first_not_of("0123456789", dot + 1) == std::string_view::npos) {
    return segment;
  }
  return segment.substr(0, dot);
}

bool is_in(const StepGraph& graph, const RecordedOperator& op, std::string_view module) {
  if (op.segment == kNone) return false;
  const std::string_view segment = graph.segments[static_cast<size_t>(op.segment)];
  return segment.starts_with(module) &&
         (segment.size() == module.size() || segment[module.size()] == '.');
}

bool convolves(const StepGraph& graph, std::string_view module) {
  return std::any_of(graph.operators.begin(), graph.operators.end(),
                     [&](const RecordedOperator& op) {
                       return op.name.find("conv") != std::string::npos && is_in(graph, op, module);
                     });
}

bool in_attention_layer(const StepGraph& graph, const RecordedOperator& op) {
  return op.segment != kNone &&
         std::any_of(graph.operators.begin(), graph.operators.end(),
                     [&](const RecordedOperator& other) {
                       if (other.segment == kNone || !is_attention(graph, other)) return false;
                       if (other.segment == op.segment) return true;
                       const std::string_view layer =
                           layer_of(graph.segments[static_cast<size_t>(other.segment)]);
                       return is_in(graph, op, layer) && !convolves(graph, layer);
                     });
}

bool is_nothing(const StepGraph& /*graph*/, const RecordedOperator& /*op*/) {
  return false;
}

}  // namespace

bool is_cheap(const StepGraph& /*graph*/, const RecordedOperator& op) {
  std::string_view name = op.name;
  if (op.overwrites != kNone && name.ends_with('_')) name.remove_suffix(1);
  return std::binary_search(kCheap.begin(), kCheap.end(), name);
}

bool is_cheap_or_in_attention(const StepGraph& graph, const RecordedOperator& op) {
  return is_cheap(graph, op) || in_attention_layer(graph, op);
}

bool is_any_operator(const StepGraph& /*graph*/, const RecordedOperator& /*op*/) {
  return true;
}

Policy policy_of(const ModeComposition& parts) {
  Policy policy;
  if (parts.offload() != nullptr) policy.host = std::make_shared<OffloadPool>(parts.host_bytes);
  policy.codec = codec_choice(parts, policy.host);
  policy.rounds = parts.rounding() != nullptr;
  policy.may_replay = &is_nothing;
  if (const ModeWord* replay = parts.replay()) {
    policy.may_replay = replay->may_replay;
    policy.keep_what_crosses_segments = replay->keeps_what_crosses;
    policy.segments_of_equal_bytes = replay->equal_segments;
    if (replay->light != nullptr) policy.light = replay->light;
    if (!replay->keeps_what_crosses) policy.runs_apart = &is_attention;
  }
  return policy;
}

}  // namespace noisemark::memopt
