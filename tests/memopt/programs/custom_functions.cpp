#include "tests/memopt/programs/custom_functions.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <tuple>
#include <vector>

namespace noisemark::memopt::programs {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct ReentrantLinear : torch::autograd::Function<ReentrantLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& w) {
    context->save_for_backward({x, w});
    return at::silu(at::linear(x, w));
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::AutoGradMode grad(true);
    const at::Tensor x = saved[0].detach().requires_grad_();
    const at::Tensor again = at::silu(at::linear(x, saved[1].to(x.scalar_type())));
    torch::autograd::backward({again}, {gradients[0].to(x.scalar_type())});
    return {x.grad(), at::Tensor()};
  }
};

struct GradSettingLinear : torch::autograd::Function<GradSettingLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& w) {
    context->save_for_backward({x, w});
    return at::linear(x, w);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    at::Tensor w = saved[1];
    const at::Tensor gradient = gradients[0].to(w.scalar_type());
    const at::Tensor x = saved[0].to(w.scalar_type());
    const at::Tensor w_gradient = gradient.flatten(0, -2).t().mm(x.flatten(0, -2)).detach();
    if (w.requires_grad()) {
      w.mutable_grad() = w.grad().defined() ? w.grad() + w_gradient : w_gradient;
    }
    return {gradient.matmul(w.detach()).to(saved[0].scalar_type()), at::Tensor()};
  }
};

struct OverwritingSquare : torch::autograd::Function<OverwritingSquare> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    const at::Tensor own = x.detach().clone();
    context->save_for_backward({own});
    return own * own;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    at::Tensor x = context->get_saved_variables()[0];
    return {x.mul_(gradients[0]).mul_(2)};
  }
};

at::Tensor mixing_matrix(const at::Tensor& x) {
  const at::Tensor row = at::arange(x.size(0));
  const at::Tensor places = at::stack({row, row.flip(0)});
  const at::Tensor values = at::linspace(0.5, 1, x.size(0), x.scalar_type());
  return at::sparse_coo_tensor(places, values, {x.size(0), x.size(0)});
}

at::Tensor lower_triangle(int64_t length) {
  return at::ones({length, length}, at::kBool).tril();
}

}  // namespace

at::Tensor reentrant_linear(const at::Tensor& x, const at::Tensor& w) {
  return ReentrantLinear::apply(x, w);
}

at::Tensor grad_setting_linear(const at::Tensor& x, const at::Tensor& w) {
  return GradSettingLinear::apply(x, w);
}

at::Tensor overwriting_square(const at::Tensor& x) {
  return OverwritingSquare::apply(x);
}

at::Tensor sparse_mix(const at::Tensor& x) {
  return at::mm(mixing_matrix(x), x);
}

at::Tensor sparse_rows_mix(const at::Tensor& x) {
  return at::mm(mixing_matrix(x).to_sparse_csr(), x);
}

at::Tensor masked_log_softmax(const at::Tensor& x) {
  const at::Tensor masked = at::arange(x.size(-1)) == x.size(-1) - 1;
  const at::Tensor logits = x.masked_fill(masked, -std::numeric_limits<double>::infinity());
  return at::log_softmax(logits, -1).masked_fill(masked, 0);
}

at::Tensor masked_attention(const at::Tensor& x) {
  const at::Tensor seen = lower_triangle(x.size(1));
  const at::Tensor heads = x.unsqueeze(1);
  const at::Tensor scores =
      at::matmul(heads, heads.transpose(-2, -1))
          .masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity());
  return at::matmul(at::softmax(scores, -1), heads).squeeze(1);
}

at::Tensor added_mask_attention(const at::Tensor& x) {
  const at::Tensor hidden = lower_triangle(x.size(1)).logical_not();
  const at::Tensor mask = at::zeros(hidden.sizes(), x.scalar_type())
                              .masked_fill(hidden, -std::numeric_limits<double>::infinity());
  const at::Tensor heads = x.unsqueeze(1);
  return at::scaled_dot_product_attention(heads, heads, heads, mask).squeeze(1);
}

at::Tensor cross_entropy(const at::Tensor& x) {
  const at::Tensor target = at::arange(x.size(0)).remainder(x.size(1));
  return at::cross_entropy_loss(x, target, {}, at::Reduction::None)
      .unsqueeze(1)
      .to(x.scalar_type());
}

at::Tensor binary_cross_entropy(const at::Tensor& x) {
  const at::Tensor cross =
      at::binary_cross_entropy_with_logits(x, at::full_like(x, 0.9), {}, {}, at::Reduction::None);
  return cross.to(x.scalar_type()) + at::log(at::clamp(at::sigmoid(x), 1e-4, 1));
}

at::Tensor gaussian_likelihood(const at::Tensor& x, const at::Tensor& spread) {
  const at::Tensor variance = at::softplus(spread) + 1e-2;
  return 0.1 * (at::log(variance) + x.square() / variance);
}

at::Tensor nearest_code(const at::Tensor& x, const at::Tensor& codes) {
  const at::Tensor nearest = at::cdist(x.detach(), codes.detach()).argmin(1);
  const at::Tensor code = at::embedding(codes, nearest);
  return x + (code - x).detach() + 0.1 * (code - x.detach());
}

at::Tensor spectral_norm(const at::Tensor& x, const at::Tensor& w, const at::Tensor& direction,
                         bool writes) {
  at::Tensor u = direction;
  if (writes) {
    const at::NoGradGuard no_grad;
    const at::Tensor next = w.mv(w.t().mv(u));
    u.copy_(next / next.norm());
  }
  return at::linear(x, w / (w.t().mv(u).norm() + 1e-3));
}

at::Tensor lstm(const at::Tensor& x, const at::Tensor& w, const at::Tensor& u) {
  at::Tensor h = at::zeros_like(x.select(1, 0));
  at::Tensor c = at::zeros_like(h);
  std::vector<at::Tensor> states;
  for (int64_t t = 0; t < x.size(1); ++t) {
    std::tie(h, c) = at::lstm_cell(x.select(1, t), {h, c}, w, u);
    states.push_back(h);
  }
  return at::stack(states, 1);
}

at::Tensor gru(const at::Tensor& x, const at::Tensor& w, const at::Tensor& u) {
  at::Tensor h = at::zeros_like(x.select(1, 0));
  std::vector<at::Tensor> states;
  for (int64_t t = 0; t < x.size(1); ++t) {
    h = at::gru_cell(x.select(1, t), h, w, u);
    states.push_back(h);
  }
  return at::stack(states, 1);
}

}  // namespace noisemark::memopt::programs
