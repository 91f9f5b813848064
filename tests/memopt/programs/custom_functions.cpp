#include "tests/memopt/programs/custom_functions.h"

#include <ATen/ATen.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/NamedTensorUtils.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <optional>
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

at::Tensor scaled_tanh_on_cpu(const at::Tensor& x, double n) {
  return at::tanh(x).mul_(n);
}

struct ScaledTanh : torch::autograd::Function<ScaledTanh> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, double n) {
    const at::AutoDispatchBelowADInplaceOrView below;
    at::Tensor y = scaled_tanh(x, n);
    context->save_for_backward({y});
    context->saved_data["n"] = n;
    return y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor y = context->get_saved_variables()[0];
    const double n = context->saved_data["n"].toDouble();
    return {gradients[0] * (n - y * y / n), at::Tensor()};
  }
};

at::Tensor scaled_tanh_with_history(const at::Tensor& x, double n) {
  return ScaledTanh::apply(x, n);
}

at::Tensor& decay_on_cpu(at::Tensor& x, double n) {
  return x.mul_(n);
}

TORCH_LIBRARY(noisemark_programs, library) {
  library.def("scaled_tanh(Tensor x, float n) -> Tensor", {at::Tag::pt2_compliant_tag});
  library.def("decay_(Tensor(a!) x, float n) -> Tensor(a!)", {at::Tag::pt2_compliant_tag});
}

TORCH_LIBRARY_IMPL(noisemark_programs, CPU, library) {
  library.impl("scaled_tanh", scaled_tanh_on_cpu);
  library.impl("decay_", decay_on_cpu);
}

TORCH_LIBRARY_IMPL(noisemark_programs, Autograd, library) {
  library.impl("scaled_tanh", scaled_tanh_with_history);
}

/// The halves of the last dimension.
std::vector<at::Tensor> halves_of(const at::Tensor& x) {
  return x.chunk(2, -1);
}

at::Tensor in_form(const at::Tensor& x, Form form) {
  namespace wrappers = at::functionalization::impl;
  switch (form) {
    case Form::kQuantized:
      return at::quantize_per_tensor(x.to(at::kFloat), 0.05, 3, at::kQInt8);
    case Form::kNamed:
      return named(x);
    case Form::kNested:
      return at::_nested_tensor_from_tensor_list(x.unbind());
    case Form::kWrapped:
      break;
  }
  return wrappers::to_functional_tensor(x);
}

at::Tensor read_form(const at::Tensor& formed, Form form) {
  namespace wrappers = at::functionalization::impl;
  switch (form) {
    case Form::kQuantized:
      return formed.dequantize();
    case Form::kNamed:
      return unnamed(formed);
    case Form::kNested:
      return formed.to_padded_tensor(0);
    case Form::kWrapped:
      break;
  }
  return wrappers::from_functional_tensor(formed);
}

struct HalfSquare : torch::autograd::Function<HalfSquare> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, int64_t form) {
    context->save_for_backward({in_form(x.detach(), static_cast<Form>(form))});
    context->saved_data["form"] = form;
    return 0.5 * x * x;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto form = static_cast<Form>(context->saved_data["form"].toInt());
    const at::Tensor x = read_form(context->get_saved_variables()[0], form);
    return {gradients[0] * x.to(gradients[0].scalar_type()), at::Tensor()};
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

at::Tensor gated_by_out(const at::Tensor& x, double n) {
  at::Tensor gate = at::empty_like(x, x.options().requires_grad(false));
  {
    const at::NoGradGuard no_grad;
    at::mul_out(gate, x, at::scalar_tensor(n, x.options().requires_grad(false)));
  }
  return x * gate;
}

at::Tensor gated_by_resized_out(const at::Tensor& x) {
  at::Tensor gate = at::empty({0}, x.options().requires_grad(false));
  {
    const at::NoGradGuard no_grad;
    at::exp_out(gate, -x.square());
  }
  return x * gate;
}

at::Tensor gated_by_half_out(const at::Tensor& x) {
  at::Tensor gate = at::ones_like(x, x.options().requires_grad(false));
  {
    const at::NoGradGuard no_grad;
    at::Tensor half = halves_of(gate)[0];
    at::tanh_out(half, halves_of(x)[0]);
  }
  return x * gate;
}

at::Tensor running_mean_out(const at::Tensor& x, const at::Tensor& running, bool writes) {
  at::Tensor mean = running;
  if (writes) {
    const at::NoGradGuard no_grad;
    at::lerp_out(mean, mean, x.flatten(0, -2).mean(0), 0.1);
  }
  return x * mean;
}

at::Tensor scaled_halves(const at::Tensor& x, double n) {
  return at::cat(at::_foreach_mul(halves_of(x), n), -1);
}

at::Tensor list_products(const at::Tensor& x, const at::Tensor& y) {
  const std::vector<at::Tensor> products = at::_foreach_mul({x, y}, {y, x});
  return products[0] + 0.5 * products[1];
}

at::Tensor list_tanh(const at::Tensor& x, double n) {
  const std::vector<at::Tensor> both = {x.clone(), x * n};
  at::_foreach_tanh_(both);
  return both[0] + both[1];
}

at::Tensor list_written(const at::Tensor& x, double n) {
  const at::Tensor h = x.clone();
  {
    const at::NoGradGuard no_grad;
    at::_foreach_mul_(halves_of(h), n);
  }
  return h * x;
}

at::Tensor scaled_tanh(const at::Tensor& x, double n) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("noisemark_programs::scaled_tanh", "")
                             .typed<at::Tensor(const at::Tensor&, double)>();
  return op.call(x, n);
}

at::Tensor gated_by_decay(const at::Tensor& x, double n) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("noisemark_programs::decay_", "")
                             .typed<at::Tensor&(at::Tensor&, double)>();
  at::Tensor decayed = x.detach().clone();
  {
    const at::NoGradGuard no_grad;
    op.call(decayed, n);
  }
  return x * decayed;
}

at::Tensor half_square(const at::Tensor& x, Form form) {
  return HalfSquare::apply(x, static_cast<int64_t>(form));
}

at::Tensor named(const at::Tensor& x) {
  std::vector<at::Dimname> names;
  for (const char* name : {"batch", "second", "third", "fourth"}) {
    names.push_back(at::Dimname::fromSymbol(at::Symbol::dimname(name)));
  }
  return x.refine_names(at::DimnameList(names).slice(0, static_cast<size_t>(x.dim())));
}

at::Tensor unnamed(const at::Tensor& x) {
  return x.rename(std::nullopt);
}

at::Tensor nested(const at::Tensor& x) {
  std::vector<at::Tensor> sequences = x.unbind();
  for (size_t i = 1; i < sequences.size(); i += 2) {
    sequences[i] = sequences[i].narrow(0, 0, sequences[i].size(0) - 1);
  }
  return at::_nested_tensor_from_tensor_list(sequences);
}

at::Tensor padded(const at::Tensor& nested, const at::Tensor& like) {
  return nested.to_padded_tensor(0, like.sizes());
}

at::Tensor summing_hook(const at::Tensor& x, const at::Tensor& sum, bool writes) {
  at::Tensor result = x + sum;
  if (!writes || !result.requires_grad()) return result;
  result.register_hook([sum](const at::Tensor& gradient) {
    const at::NoGradGuard no_grad;
    at::Tensor total = sum;
    total.add_(gradient.abs().mean(), 0.1);
    return gradient;
  });
  return result;
}

namespace {

constexpr double kLarge = 0.9;

}  // namespace

at::Tensor power(const at::Tensor& x, const at::Tensor& w, double n) {
  const at::Tensor h = at::linear(x, w).abs() + 0.03;
  return at::linear(at::pow(h, std::round(6 * n) - 4), w);
}

at::Tensor older_view(const at::Tensor& x, const at::Tensor& w, double n) {
  at::Tensor h = at::linear(x, w).abs();
  const at::Tensor view = h.transpose(-2, -1);
  h.add_(0.03);
  return at::linear((n > kLarge ? at::pow(view, -2) : at::silu(view)).transpose(-2, -1), w);
}

at::Tensor written_part(const at::Tensor& x, const at::Tensor& w, double n) {
  at::Tensor h = 8 * at::linear(x, w);
  at::Tensor half = h.narrow(-1, 0, h.size(-1) / 2);
  if (n <= kLarge) {
    half.tanh_();
    return at::linear(h, w);
  }
  half.exp_();
  return at::linear((h.abs() + 1).log(), w);
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
