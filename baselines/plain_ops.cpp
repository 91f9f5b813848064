#include <ATen/ops/add.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/div.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>

#include <cmath>

#include "baselines/ops.h"

namespace noisemark::baselines {
namespace {

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

const Ops& plain_ops() {
  static const PlainOps ops;
  return ops;
}

}  // namespace noisemark::baselines
