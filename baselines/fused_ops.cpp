#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>
#include <vector>

#include "baselines/fused_norm.h"
#include "baselines/kernels/attention.h"
#include "baselines/ops.h"

namespace noisemark::baselines {
namespace {

using kernels::Act;
using kernels::kHeadChannels;
using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;
using MaybeTensor = std::optional<at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// The groups are operators of LibTorch's dispatcher, so that profiles name them and whoever records
// or replays operators sees them like ATen's own. `act` is a kernels::Act.

Three group_norm_kernel(const at::Tensor& x, int64_t groups, const at::Tensor& weight,
                        const at::Tensor& bias, double eps, int64_t act) {
  return group_norm_act(x, groups, weight, bias, eps, static_cast<Act>(act));
}

// NAME_from_statistics takes what NAME takes, then all that NAME gives but its first
// result, which it gives again: memopt finds it by its name (memopt/treatment/recipe.h).
at::Tensor group_norm_from_statistics_kernel(const at::Tensor& x, int64_t groups,
                                             const at::Tensor& weight, const at::Tensor& bias,
                                             double /*eps*/, int64_t act, const at::Tensor& mean,
                                             const at::Tensor& rstd) {
  return group_norm_act_from_statistics(x, groups, weight, bias, static_cast<Act>(act), mean, rstd);
}

Three group_norm_backward_kernel(const at::Tensor& dy, const at::Tensor& x,
                                 const at::Tensor& weight, const at::Tensor& bias,
                                 const at::Tensor& mean, const at::Tensor& rstd, int64_t groups,
                                 int64_t act) {
  return group_norm_act_backward(dy, x, weight, bias, mean, rstd, groups, static_cast<Act>(act));
}

Two rms_norm_kernel(const at::Tensor& x, const at::Tensor& g, const MaybeTensor& scale,
                    const MaybeTensor& shift, int64_t act) {
  return rms_norm_act(x, g, scale, shift, static_cast<Act>(act));
}

at::Tensor rms_norm_from_statistics_kernel(const at::Tensor& x, const at::Tensor& g,
                                           const MaybeTensor& scale, const MaybeTensor& shift,
                                           int64_t act, const at::Tensor& inverse_norm) {
  return rms_norm_act_from_statistics(x, g, scale, shift, static_cast<Act>(act), inverse_norm);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> rms_norm_backward_kernel(
    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& g, const MaybeTensor& scale,
    const MaybeTensor& shift, const at::Tensor& inverse_norm, int64_t act) {
  return rms_norm_act_backward(dy, x, g, scale, shift, inverse_norm, static_cast<Act>(act));
}

Three group_norm_autograd(const at::Tensor& x, int64_t groups, const at::Tensor& weight,
                          const at::Tensor& bias, double eps, int64_t act);
Two rms_norm_autograd(const at::Tensor& x, const at::Tensor& g, const MaybeTensor& scale,
                      const MaybeTensor& shift, int64_t act);

torch::Library make_library() {
  torch::Library library(torch::Library::DEF, "noisemark", std::nullopt, __FILE__, __LINE__);
  // A mode of memopt makes again only what operators made that say that they do nothing else.
  const std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag};
  library.def(
      "group_norm_act(Tensor x, int groups, Tensor weight, Tensor bias, float eps, int act)"
      " -> (Tensor, Tensor, Tensor)",
      tags);
  library.def(
      "group_norm_act_from_statistics(Tensor x, int groups, Tensor weight, Tensor bias, float eps,"
      " int act, Tensor mean, Tensor rstd) -> Tensor",
      tags);
  library.def(
      "group_norm_act_backward(Tensor dy, Tensor x, Tensor weight, Tensor bias, Tensor mean,"
      " Tensor rstd, int groups, int act) -> (Tensor, Tensor, Tensor)",
      tags);
  library.def(
      "rms_norm_act(Tensor x, Tensor g, Tensor? scale, Tensor? shift, int act)"
      " -> (Tensor, Tensor)",
      tags);
  library.def(
      "rms_norm_act_from_statistics(Tensor x, Tensor g, Tensor? scale, Tensor? shift, int act,"
      " Tensor inverse_norm) -> Tensor",
      tags);
  library.def(
      "rms_norm_act_backward(Tensor dy, Tensor x, Tensor g, Tensor? scale, Tensor? shift,"
      " Tensor inverse_norm, int act) -> (Tensor, Tensor, Tensor, Tensor)",
      tags);
  for (const auto key : {c10::DispatchKey::CPU, c10::DispatchKey::CUDA}) {
    library.impl("group_norm_act", torch::dispatch(key, group_norm_kernel));
    library.impl("group_norm_act_from_statistics",
                 torch::dispatch(key, group_norm_from_statistics_kernel));
    library.impl("group_norm_act_backward", torch::dispatch(key, group_norm_backward_kernel));
    library.impl("rms_norm_act", torch::dispatch(key, rms_norm_kernel));
    library.impl("rms_norm_act_from_statistics",
                 torch::dispatch(key, rms_norm_from_statistics_kernel));
    library.impl("rms_norm_act_backward", torch::dispatch(key, rms_norm_backward_kernel));
  }
  for (const auto key : {c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutogradCUDA}) {
    library.impl("group_norm_act", torch::dispatch(key, group_norm_autograd));
    library.impl("rms_norm_act", torch::dispatch(key, rms_norm_autograd));
  }
  return library;
}

template <typename Function>
c10::TypedOperatorHandle<Function> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

struct Operators {
  torch::Library library = make_library();
  c10::TypedOperatorHandle<decltype(group_norm_kernel)> group_norm =
      find<decltype(group_norm_kernel)>("noisemark::group_norm_act");
  c10::TypedOperatorHandle<decltype(group_norm_backward_kernel)> group_norm_backward =
      find<decltype(group_norm_backward_kernel)>("noisemark::group_norm_act_backward");
  c10::TypedOperatorHandle<decltype(rms_norm_kernel)> rms_norm =
      find<decltype(rms_norm_kernel)>("noisemark::rms_norm_act");
  c10::TypedOperatorHandle<decltype(rms_norm_backward_kernel)> rms_norm_backward =
      find<decltype(rms_norm_backward_kernel)>("noisemark::rms_norm_act_backward");
};

const Operators& operators() {
  static const Operators instance;
  return instance;
}

MaybeTensor maybe(const at::Tensor& x) {
  return x.defined() ? MaybeTensor(x) : std::nullopt;
}

// Backward needs these kept: the input, its statistics and the parameters. The activation's input
// is computed again, so it is never written to memory.

struct GroupNormFunction : torch::autograd::Function<GroupNormFunction> {
  static variable_list forward(AutogradContext* ctx, const Variable& x, int64_t groups,
                               const Variable& weight, const Variable& bias, double eps,
                               int64_t act) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [y, mean, rstd] = operators().group_norm.call(x, groups, weight, bias, eps, act);
    ctx->save_for_backward({x, weight, bias, mean, rstd});
    ctx->saved_data["groups"] = groups;
    ctx->saved_data["act"] = act;
    ctx->mark_non_differentiable({mean, rstd});
    return {y, mean, rstd};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const auto [dx, dweight, dbias] = operators().group_norm_backward.call(
        grads[0], saved[0], saved[1], saved[2], saved[3], saved[4],
        ctx->saved_data["groups"].toInt(), ctx->saved_data["act"].toInt());
    return {dx, {}, dweight, dbias, {}, {}};
  }
};

struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  static variable_list forward(AutogradContext* ctx, const Variable& x, const Variable& g,
                               const MaybeTensor& scale, const MaybeTensor& shift, int64_t act) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [y, inverse_norm] = operators().rms_norm.call(x, g, scale, shift, act);
    ctx->save_for_backward(
        {x, g, scale.value_or(at::Tensor()), shift.value_or(at::Tensor()), inverse_norm});
    ctx->saved_data["act"] = act;
    ctx->mark_non_differentiable({inverse_norm});
    return {y, inverse_norm};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const auto [dx, dg, dscale, dshift] = operators().rms_norm_backward.call(
        grads[0], saved[0], saved[1], maybe(saved[2]), maybe(saved[3]), saved[4],
        ctx->saved_data["act"].toInt());
    return {dx, dg, dscale, dshift, {}};
  }
};

Three group_norm_autograd(const at::Tensor& x, int64_t groups, const at::Tensor& weight,
                          const at::Tensor& bias, double eps, int64_t act) {
  const variable_list out = GroupNormFunction::apply(x, groups, weight, bias, eps, act);
  return {out[0], out[1], out[2]};
}

Two rms_norm_autograd(const at::Tensor& x, const at::Tensor& g, const MaybeTensor& scale,
                      const MaybeTensor& shift, int64_t act) {
  const variable_list out = RmsNormFunction::apply(x, g, scale, shift, act);
  return {out[0], out[1]};
}

/// Returns whether fused_attention() takes these: gradients off, both float32 on the CPU, qkv in
/// NHWC memory and not empty, `head_channels` the one number that they are written for.
bool fused_attention_takes(const at::Tensor& qkv, const at::Tensor& mem_kv, int64_t head_channels) {
  return !at::GradMode::is_enabled() && head_channels == kHeadChannels && qkv.device().is_cpu() &&
         qkv.scalar_type() == at::kFloat && mem_kv.scalar_type() == at::kFloat && qkv.numel() > 0 &&
         qkv.is_contiguous(at::MemoryFormat::ChannelsLast);
}

/// Attention in one pass over each head, for a CPU, float32 and nothing to keep for backward. qkv
/// [N, 3 * heads * d, H, W] and a learned mem_kv of `memory_tokens` -> [N, heads * d, H, W].
at::Tensor fused_attention(const kernels::AttentionKernel& kernel, const at::Tensor& qkv,
                           const at::Tensor& mem_kv, int64_t memory_tokens) {
  const at::Tensor memory = mem_kv.contiguous();
  const int64_t heads = memory.size(1);
  const at::Tensor out = at::empty({qkv.size(0), heads * kHeadChannels, qkv.size(2), qkv.size(3)},
                                   qkv.options(), at::MemoryFormat::ChannelsLast);
  kernels::Attention job;
  job.samples = qkv.size(0);
  job.heads = heads;
  job.tokens = qkv.size(2) * qkv.size(3);
  job.memory_tokens = memory_tokens;
  job.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(kHeadChannels)));
  job.qkv = qkv.const_data_ptr<float>();
  job.memory_k = memory.const_data_ptr<float>();
  job.memory_v = job.memory_k + memory.numel() / 2;
  job.out = out.mutable_data_ptr<float>();
  at::parallel_for(0, job.tasks(), 1, [&](int64_t begin, int64_t end) {
    std::vector<float> scratch(static_cast<size_t>(kernel.scratch_floats(job)));
    kernel.forward(job, begin, end, scratch.data());
  });
  return out;
}

const kernels::AttentionKernels& attention_kernels() {
  return kernels::attention_kernels(memopt::current_cpu_level());
}

class FusedOps final : public Ops {
 public:
  at::Tensor group_norm_act(const at::Tensor& x, int64_t groups, const at::Tensor& weight,
                            const at::Tensor& bias, double eps, Activation act) const override {
    if (!fused_norm_takes(x)) return plain_ops().group_norm_act(x, groups, weight, bias, eps, act);
    return fused_group_norm(x, groups, weight, bias, eps,
                            act == Activation::kSilu ? Act::kSilu : Act::kRelu);
  }

  at::Tensor group_norm(const at::Tensor& x, int64_t groups, const at::Tensor& weight,
                        const at::Tensor& bias, double eps) const override {
    if (!fused_norm_takes(x)) return plain_ops().group_norm(x, groups, weight, bias, eps);
    return fused_group_norm(x, groups, weight, bias, eps, Act::kNone);
  }

  at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& g) const override {
    if (!fused_norm_takes(x)) return plain_ops().rms_norm(x, g);
    return fused_rms_norm(x, g, {}, {}, Act::kNone);
  }

  at::Tensor rms_norm_film_silu(const at::Tensor& x, const at::Tensor& g, const at::Tensor& scale,
                                const at::Tensor& shift) const override {
    if (!fused_norm_takes(x)) return plain_ops().rms_norm_film_silu(x, g, scale, shift);
    return fused_rms_norm(x, g, scale, shift, Act::kSilu);
  }

  at::Tensor linear_attention(const at::Tensor& qkv, const at::Tensor& mem_kv) const override {
    if (!fused_attention_takes(qkv, mem_kv, mem_kv.size(2))) {
      return Ops::linear_attention(qkv, mem_kv);
    }
    return fused_attention(attention_kernels().linear, qkv, mem_kv, mem_kv.size(3));
  }

  at::Tensor softmax_attention(const at::Tensor& qkv, const at::Tensor& mem_kv) const override {
    if (!fused_attention_takes(qkv, mem_kv, mem_kv.size(3))) {
      return Ops::softmax_attention(qkv, mem_kv);
    }
    return fused_attention(attention_kernels().softmax, qkv, mem_kv, mem_kv.size(2));
  }

 private:
  static at::Tensor fused_group_norm(const at::Tensor& x, int64_t groups, const at::Tensor& weight,
                                     const at::Tensor& bias, double eps, Act act) {
    return std::get<0>(
        operators().group_norm.call(x, groups, weight, bias, eps, static_cast<int64_t>(act)));
  }

  static at::Tensor fused_rms_norm(const at::Tensor& x, const at::Tensor& g,
                                   const at::Tensor& scale, const at::Tensor& shift, Act act) {
    return std::get<0>(
        operators().rms_norm.call(x, g, maybe(scale), maybe(shift), static_cast<int64_t>(act)));
  }
};

}  // namespace

const Ops& fused_ops() {
  static const FusedOps ops;
  return ops;
}

}  // namespace noisemark::baselines
