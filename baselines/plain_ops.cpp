#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/div.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>

#include <cmath>
#include <vector>

#include "baselines/ops.h"

namespace noisemark::baselines {
namespace {

double inverse_sqrt(int64_t n) {
  return 1.0 / std::sqrt(static_cast<double>(n));
}

// [N, heads * d, H, W] -> [N, heads, d, H * W]
at::Tensor split_heads(const at::Tensor& x, int64_t heads) {
  return x.reshape({x.size(0), heads, x.size(1) / heads, x.size(2) * x.size(3)});
}

// The learned keys or values of one sample, repeated for a batch without a copy.
at::Tensor for_batch(const at::Tensor& memory, int64_t batch) {
  return memory.unsqueeze(0).expand({batch, -1, -1, -1});
}

class PlainOps final : public Ops {
 public:
  at::Tensor group_norm_act(const at::Tensor& x, int64_t groups, const at::Tensor& weight,
                            const at::Tensor& bias, double eps, Activation act) const override {
    const at::Tensor normalized = group_norm(x, groups, weight, bias, eps);
    return act == Activation::kSilu ? at::silu(normalized) : at::relu(normalized);
  }

  at::Tensor group_norm(const at::Tensor& x, int64_t groups, const at::Tensor& weight,
                        const at::Tensor& bias, double eps) const override {
    return at::group_norm(x, groups, weight, bias, eps, /*cudnn_enabled=*/true);
  }

  at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& g) const override {
    // torch.nn.functional.normalize, operator by operator: autograd and autocast see the same.
    const at::Tensor norm = at::linalg_vector_norm(x, 2, at::IntArrayRef{1}, /*keepdim=*/true);
    const at::Tensor unit = at::div(x, at::clamp_min(norm, 1e-12).expand_as(x));
    return at::mul(at::mul(unit, g), std::pow(static_cast<double>(g.size(1)), 0.5));
  }

  at::Tensor rms_norm_film_silu(const at::Tensor& x, const at::Tensor& g, const at::Tensor& scale,
                                const at::Tensor& shift) const override {
    at::Tensor h = rms_norm(x, g);
    if (scale.defined()) h = at::add(at::mul(h, at::add(scale, 1)), shift);
    return at::silu(h);
  }
};

}  // namespace

at::Tensor linear_attention_of(const at::Tensor& queries, const at::Tensor& keys,
                               const at::Tensor& values, const at::Tensor& mem_kv) {
  const int64_t heads = mem_kv.size(1);
  const std::vector<at::Tensor> memory = mem_kv.unbind(0);
  at::Tensor q = split_heads(queries, heads);
  at::Tensor k = split_heads(keys, heads);
  at::Tensor v = split_heads(values, heads);
  k = at::cat({for_batch(memory[0], queries.size(0)), k}, -1);
  v = at::cat({for_batch(memory[1], queries.size(0)), v}, -1);
  q = q.softmax(-2) * inverse_sqrt(mem_kv.size(2));
  k = k.softmax(-1);
  const at::Tensor context = at::einsum("bhdn,bhen->bhde", {k, v});
  const at::Tensor out = at::einsum("bhde,bhdn->bhen", {context, q});
  return out.reshape(queries.sizes());
}

at::Tensor softmax_attention_of(const at::Tensor& queries, const at::Tensor& keys,
                                const at::Tensor& values, const at::Tensor& mem_kv) {
  const int64_t heads = mem_kv.size(1);
  const std::vector<at::Tensor> memory = mem_kv.unbind(0);
  const at::Tensor q = split_heads(queries, heads).transpose(-1, -2);
  at::Tensor k = split_heads(keys, heads).transpose(-1, -2);
  at::Tensor v = split_heads(values, heads).transpose(-1, -2);
  k = at::cat({for_batch(memory[0], queries.size(0)), k}, -2);
  v = at::cat({for_batch(memory[1], queries.size(0)), v}, -2);
  const at::Tensor similarity =
      at::einsum("bhid,bhjd->bhij", {q, k}) * inverse_sqrt(mem_kv.size(3));
  const at::Tensor out = at::einsum("bhij,bhjd->bhid", {similarity.softmax(-1), v});
  return out.transpose(-1, -2).reshape(queries.sizes());
}

at::Tensor Ops::linear_attention(const at::Tensor& qkv, const at::Tensor& mem_kv) const {
  const std::vector<at::Tensor> parts = qkv.chunk(3, 1);
  return linear_attention_of(parts[0], parts[1], parts[2], mem_kv);
}

at::Tensor Ops::softmax_attention(const at::Tensor& qkv, const at::Tensor& mem_kv) const {
  const std::vector<at::Tensor> parts = qkv.chunk(3, 1);
  return softmax_attention_of(parts[0], parts[1], parts[2], mem_kv);
}

const Ops& plain_ops() {
  static const PlainOps ops;
  return ops;
}

}  // namespace noisemark::baselines
