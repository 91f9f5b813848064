#pragma once

#include <ATen/core/Tensor.h>

namespace noisemark::baselines {

/// Attention in one pass over each head, for a CPU, float32 and nothing to keep for backward. Same
/// mathematics as Ops::linear_attention() and Ops::softmax_attention().

/// Returns whether the kernels take these: gradients off, both float32 on the CPU, qkv in NHWC
/// memory and not empty, `head_channels` the one number that they are written for.
[[nodiscard]] bool fused_attention_takes(const at::Tensor& qkv, const at::Tensor& mem_kv,
                                         int64_t head_channels);

/// qkv [N, 3 * heads * d, H, W] and the learned mem_kv [2, heads, d, m] -> [N, heads * d, H, W].
[[nodiscard]] at::Tensor fused_linear_attention(const at::Tensor& qkv, const at::Tensor& mem_kv);
/// The same with mem_kv [2, heads, m, d].
[[nodiscard]] at::Tensor fused_softmax_attention(const at::Tensor& qkv, const at::Tensor& mem_kv);

}  // namespace noisemark::baselines
