#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace noisemark::baselines {

enum class Activation { kSilu, kRelu };

/// The operator groups of a U-Net block that a baseline may execute in another way. Same
/// mathematics, same saved meaning; results agree with PlainOps to rounding. Stateless and
/// thread-safe.
class Ops {
 public:
  virtual ~Ops() = default;

  /// Group norm, then activation. x [N, C, H, W], weight and bias [C].
  [[nodiscard]] virtual at::Tensor group_norm_act(const at::Tensor& x, int64_t groups,
                                                  const at::Tensor& weight, const at::Tensor& bias,
                                                  double eps, Activation act) const = 0;

  /// Group norm alone (before attention).
  [[nodiscard]] virtual at::Tensor group_norm(const at::Tensor& x, int64_t groups,
                                              const at::Tensor& weight, const at::Tensor& bias,
                                              double eps) const = 0;

  /// RMS norm over channels (F.normalize(x, dim=1) * g * sqrt(C), g [1, C, 1, 1]).
  [[nodiscard]] virtual at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& g) const = 0;

  /// RMS norm, then x * (scale + 1) + shift where scale is defined (scale, shift [N, C, 1, 1]),
  /// then SiLU.
  [[nodiscard]] virtual at::Tensor rms_norm_film_silu(const at::Tensor& x, const at::Tensor& g,
                                                      const at::Tensor& scale,
                                                      const at::Tensor& shift) const = 0;

  /// Linear attention (Shen et al. 2021) with learned memory, of lucidrains' U-Net: qkv
  /// [N, 3 * heads * d, H, W], mem_kv [2, heads, d, m] -> [N, heads * d, H, W]. ATen's operators
  /// unless a baseline has its own.
  [[nodiscard]] virtual at::Tensor linear_attention(const at::Tensor& qkv,
                                                    const at::Tensor& mem_kv) const;

  /// Softmax attention with learned memory, likewise; mem_kv [2, heads, m, d].
  [[nodiscard]] virtual at::Tensor softmax_attention(const at::Tensor& qkv,
                                                     const at::Tensor& mem_kv) const;
};

/// Both attentions by ATen's operators, with keys and values of other pixels than the queries': q
/// [N, heads * d, H, W], k and v [N, heads * d, H', W'] -> [N, heads * d, H, W].
[[nodiscard]] at::Tensor linear_attention_of(const at::Tensor& q, const at::Tensor& k,
                                             const at::Tensor& v, const at::Tensor& mem_kv);
[[nodiscard]] at::Tensor softmax_attention_of(const at::Tensor& q, const at::Tensor& k,
                                              const at::Tensor& v, const at::Tensor& mem_kv);

/// ATen operators, one at a time, in the peers' order: what autograd sees is what it sees in the
/// peers.
[[nodiscard]] const Ops& plain_ops();

/// One kernel per group, forward and backward, on the CPU and on CUDA, in float32 and bfloat16;
/// ATen elsewhere.
[[nodiscard]] const Ops& fused_ops();

}  // namespace noisemark::baselines
