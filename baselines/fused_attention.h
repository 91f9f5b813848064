#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

/// Linear attention in one kernel, as a function on CPU tensors, without autograd.
namespace noisemark::baselines {

/// Whether linear_attention() takes these: qkv as the kernels take it, a head of at most 64
/// channels.
[[nodiscard]] bool linear_attention_takes(const at::Tensor& qkv, const at::Tensor& memory);

/// qkv [N, 3 * heads * d, H, W], memory [2, heads, d, M] -> out [N, heads * d, H, W] in the memory
/// order of qkv, context [N, heads, d, d], largest key and sum of exponentials [N, heads, d]
/// (float32).
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> linear_attention(
    const at::Tensor& qkv, const at::Tensor& memory);

/// -> gradients of qkv and memory.
std::tuple<at::Tensor, at::Tensor> linear_attention_backward(
    const at::Tensor& dout, const at::Tensor& qkv, const at::Tensor& memory,
    const at::Tensor& context, const at::Tensor& key_max, const at::Tensor& key_sum);

}  // namespace noisemark::baselines
