#include "memopt/policies.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "memopt/codec_choice.h"
#include "memopt/offload_pool.h"

namespace noisemark::memopt {
namespace {

/// One pass over their data, or none.
constexpr std::array<std::string_view, 70> kCheap = {
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

/// Where one of these is, attention is computed.
constexpr std::array<std::string_view, 5> kAttention = {
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_softmax",
};
static_assert(std::is_sorted(kAttention.begin(), kAttention.end()));

bool is_cheap(const StepGraph& /*graph*/, const RecordedOperator& op) {
  std::string_view name = op.name;
  if (op.overwrites != kNone && name.ends_with('_')) name.remove_suffix(1);
  return std::binary_search(kCheap.begin(), kCheap.end(), name);
}

bool in_attention_segment(const StepGraph& graph, const RecordedOperator& op) {
  return op.segment != kNone &&
         std::any_of(graph.operators.begin(), graph.operators.end(),
                     [&](const RecordedOperator& other) {
                       return other.segment == op.segment &&
                              std::binary_search(kAttention.begin(), kAttention.end(), other.name);
                     });
}

bool is_cheap_or_in_attention(const StepGraph& graph, const RecordedOperator& op) {
  return is_cheap(graph, op) || in_attention_segment(graph, op);
}

bool is_nothing(const StepGraph& /*graph*/, const RecordedOperator& /*op*/) {
  return false;
}

bool is_anything(const StepGraph& /*graph*/, const RecordedOperator& /*op*/) {
  return true;
}

}  // namespace

Policy policy_of(const ModeParts& parts) {
  using Replay = ModeParts::Replay;
  Policy policy;
  if (parts.offload != ModeParts::Offload::kNothing) {
    policy.host = std::make_shared<OffloadPool>(parts.host_bytes);
  }
  policy.codec = codec_choice(parts, policy.host);
  switch (parts.replay) {
    case Replay::kNothing:
      policy.may_replay = &is_nothing;
      return policy;
    case Replay::kEcho:
      policy.may_replay = &is_cheap;
      return policy;
    case Replay::kEchoAttention:
      policy.may_replay = &is_cheap_or_in_attention;
      return policy;
    case Replay::kMirror:
    case Replay::kMirrorSqrt:
    case Replay::kMirrorEcho:
    case Replay::kMirrorSqrtEcho:
      break;
  }
  policy.may_replay = &is_anything;
  policy.keep_what_crosses_segments = true;
  policy.segments_of_equal_bytes =
      parts.replay == Replay::kMirrorSqrt || parts.replay == Replay::kMirrorSqrtEcho;
  if (parts.replay == Replay::kMirrorEcho || parts.replay == Replay::kMirrorSqrtEcho) {
    policy.light = &is_cheap;
  }
  return policy;
}

}  // namespace noisemark::memopt
