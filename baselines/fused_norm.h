#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>

#include "baselines/kernels/types.h"

/// The fused norms as functions on tensors, without autograd, on any device that device_parts.h
/// has. x is [N, C, ...] with at least one more dimension, float32 or bfloat16, not empty; a result
/// has the memory order of x if that is dense in [N, C, ...] or [N, ..., C] order, else of
/// x.contiguous(). Parameters and statistics are float32 inside.
namespace noisemark::baselines {

/// Returns whether x is something that the functions below take.
[[nodiscard]] bool fused_norm_takes(const at::Tensor& x);

/// -> y like x, mean [N, groups], rstd [N, groups] (float32).
std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm_act(const at::Tensor& x, int64_t groups,
                                                              const at::Tensor& weight,
                                                              const at::Tensor& bias, double eps,
                                                              kernels::Act act);

/// y again, bit for bit what group_norm_act() gave on this device beside `mean` and `rstd`, in one
/// sweep over x.
at::Tensor group_norm_act_from_statistics(const at::Tensor& x, int64_t groups,
                                          const at::Tensor& weight, const at::Tensor& bias,
                                          kernels::Act act, const at::Tensor& mean,
                                          const at::Tensor& rstd);

/// -> gradients of x, weight and bias.
std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm_act_backward(
    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
    const at::Tensor& mean, const at::Tensor& rstd, int64_t groups, kernels::Act act);

/// scale and shift [N, C, 1, 1], both or neither. -> y like x, inverse norm [N, pixels] (float32).
std::tuple<at::Tensor, at::Tensor> rms_norm_act(const at::Tensor& x, const at::Tensor& g,
                                                const std::optional<at::Tensor>& scale,
                                                const std::optional<at::Tensor>& shift,
                                                kernels::Act act);

/// y again, bit for bit what rms_norm_act() gave on this device beside `inverse_norm`, in one sweep
/// over x.
at::Tensor rms_norm_act_from_statistics(const at::Tensor& x, const at::Tensor& g,
                                        const std::optional<at::Tensor>& scale,
                                        const std::optional<at::Tensor>& shift, kernels::Act act,
                                        const at::Tensor& inverse_norm);

/// -> gradients of x, g, scale and shift; the last two undefined where there was none.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> rms_norm_act_backward(
    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& g,
    const std::optional<at::Tensor>& scale, const std::optional<at::Tensor>& shift,
    const at::Tensor& inverse_norm, kernels::Act act);

}  // namespace noisemark::baselines
