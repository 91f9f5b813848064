#include "tests/memopt/programs/operators.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <tuple>

#include "tests/memopt/programs/custom_functions.h"

namespace noisemark::memopt::programs {
namespace {

using Types = std::vector<Type>;
using Result = std::optional<Type>;
using Shapes = std::vector<Shape>;
using Run = const Arguments&;

constexpr int64_t kKernel = 3;
constexpr int64_t kVocabulary = 16;

// Type rules. A vector is [B, C], a sequence [B, T, C], an image [B, C, H, W].
bool is_float(const Type& t) {
  return at::isFloatingType(t.dtype);
}
bool is_complex(const Type& t) {
  return at::isComplexType(t.dtype);
}
bool is_image(const Type& t) {
  return is_float(t) && t.shape.size() == 4;
}
bool is_sequence(const Type& t) {
  return is_float(t) && t.shape.size() == 3;
}

Result if_(bool takes, const Type& result) {
  return takes ? Result(result) : std::nullopt;
}
Result one_float(const Types& in) {
  return if_(is_float(in[0]), in[0]);
}
Result two_floats(const Types& in) {
  return if_(is_float(in[0]) && is_float(in[1]) && in[0].shape == in[1].shape,
             {at::promote_types(in[0].dtype, in[1].dtype), in[0].shape});
}
Result one_complex(const Types& in) {
  return if_(is_complex(in[0]), in[0]);
}
Result two_complex(const Types& in) {
  return if_(is_complex(in[0]) && in[0] == in[1], in[0]);
}
Result to_complex(const Types& in) {
  const bool wide = in[0].dtype == at::kDouble;
  return if_(is_float(in[0]), {wide ? at::kComplexDouble : at::kComplexFloat, in[0].shape});
}
Result to_float(const Types& in) {
  if (!is_complex(in[0])) return std::nullopt;
  return Type{at::toRealValueType(in[0].dtype), in[0].shape};
}
Result to_mask(const Types& in) {
  return if_(is_float(in[0]), {at::kBool, in[0].shape});
}
Result float_and_mask(const Types& in) {
  return if_(is_float(in[0]) && in[1] == Type{at::kBool, in[0].shape}, in[0]);
}
Result vector_only(const Types& in) {
  return if_(is_float(in[0]) && in[0].shape.size() == 2, in[0]);
}
Result float32_only(const Types& in) {
  return if_(in[0].dtype == at::kFloat, in[0]);
}
Result long_sequence(const Types& in) {
  return if_(in[0].dtype == at::kFloat && is_sequence(in[0]) && in[0].shape[1] > 1, in[0]);
}
Result two_long_sequences(const Types& in) {
  return in[0] == in[1] ? long_sequence(in) : std::nullopt;
}
Result features_last(const Types& in) {
  return if_(is_float(in[0]) && in[0].shape.size() <= 3, in[0]);
}
Result image_only(const Types& in) {
  return if_(is_image(in[0]), in[0]);
}
Result sequence_only(const Types& in) {
  return if_(is_sequence(in[0]), in[0]);
}
Result pooled(const Types& in) {
  if (!is_image(in[0]) || in[0].shape[2] < 4) return std::nullopt;
  const Shape& s = in[0].shape;
  return Type{in[0].dtype, {s[0], s[1], s[2] / 2, s[3] / 2}};
}
Result upsampled(const Types& in) {
  if (!is_image(in[0]) || in[0].shape[2] > 4) return std::nullopt;
  const Shape& s = in[0].shape;
  return Type{in[0].dtype, {s[0], s[1], s[2] * 2, s[3] * 2}};
}
Result mean_of_image(const Types& in) {
  return if_(is_image(in[0]), {in[0].dtype, {in[0].shape[0], in[0].shape[1]}});
}
Result mean_of_sequence(const Types& in) {
  return if_(is_sequence(in[0]), {in[0].dtype, {in[0].shape[0], in[0].shape.back()}});
}
Result as_sequence(const Types& in) {
  if (!is_image(in[0])) return std::nullopt;
  const Shape& s = in[0].shape;
  return Type{in[0].dtype, {s[0], s[2] * s[3], s[1]}};
}
Result embedded(const Types& in) {
  if (in[0].dtype != at::kLong) return std::nullopt;
  return Type{at::kFloat, {in[0].shape[0], in[0].shape[1], 8}};
}

// Rules of parameters.
int64_t width(const Types& in) {
  return is_image(in[0]) ? in[0].shape[1] : in[0].shape.back();
}
Shapes no_states(const Types&) {
  return {};
}
Shapes square(const Types& in) {
  return {{width(in), width(in)}};
}
Shapes with_bias(const Types& in) {
  return {{width(in), width(in)}, {width(in)}};
}
Shapes scale_only(const Types& in) {
  return {{width(in)}};
}
Shapes square_and_scale(const Types& in) {
  return {{width(in), width(in)}, {width(in), 1}};
}
Shapes square_and_vector(const Types& in) {
  return {{width(in), width(in)}, {width(in)}};
}
Shapes affine(const Types& in) {
  return {{width(in)}, {width(in)}};
}
Shapes affine_and_running(const Types& in) {
  return {{width(in)}, {width(in)}, {width(in)}, {width(in)}};
}
Shapes kernel_only(const Types& in) {
  return {{width(in), width(in), kKernel, kKernel}};
}
Shapes kernel_and_bias(const Types& in) {
  return {{width(in), width(in), kKernel, kKernel}, {width(in)}};
}
Shapes four_gates(const Types& in) {
  return {{4 * width(in), width(in)}, {4 * width(in), width(in)}};
}
Shapes three_gates(const Types& in) {
  return {{3 * width(in), width(in)}, {3 * width(in), width(in)}};
}
Shapes table(const Types&) {
  return {{kVocabulary, 8}};
}

constexpr Effects kPlain{};
constexpr Effects kSavesNothing{.saves_nothing = true};
constexpr Effects kInPlace{.writes_input = true, .saves_nothing = true};
constexpr Effects kView{.view = true};
constexpr Effects kLowered{.saves_nothing = true, .lowered = true};
constexpr Effects kLoweredWithBias{.saves_nothing = true, .lowered = true, .last_unsaved = true};

/// Element-wise, with a constant or none.
std::vector<Operator> element_wise() {
  return {
      {"relu", "at::relu($0)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return at::relu(a.in[0]); }},
      {"gelu", "at::gelu($0)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return at::gelu(a.in[0]); }},
      {"silu", "at::silu($0)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return at::silu(a.in[0]); }},
      {"tanh", "at::tanh($0)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return at::tanh(a.in[0]); }},
      {"sigmoid", "at::sigmoid($0)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return at::sigmoid(a.in[0]); }},
      {"add_number", "$0 + $n", 1, 0, kSavesNothing, one_float, no_states,
       [](Run a) { return a.in[0] + a.number; }},
      {"mul_number", "$0 * $n", 1, 0, kSavesNothing, one_float, no_states,
       [](Run a) { return a.in[0] * a.number; }},
      {"leaky_relu", "at::leaky_relu($0, $n)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return at::leaky_relu(a.in[0], a.number); }},
      {"log", "at::log(at::sigmoid($0) + 1e-8)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return at::log(at::sigmoid(a.in[0]) + 1e-8); }},
      {"rsqrt", "at::rsqrt($0.square() + 0.1)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return at::rsqrt(a.in[0].square() + 0.1); }},
      {"pow", "at::pow($0.square() + 0.1, -1.5)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return at::pow(a.in[0].square() + 0.1, -1.5); }},
      {"div", "$0 / ($1.square() + 0.1)", 2, 0, kPlain, two_floats, no_states,
       [](Run a) { return a.in[0] / (a.in[1].square() + 0.1); }},
      {"variance_head", "$0.square() * at::exp(-at::tanh($1)) + $1", 2, 0, kPlain, two_floats,
       no_states, [](Run a) { return a.in[0].square() * at::exp(-at::tanh(a.in[1])) + a.in[1]; }},
      {"sub", "$0 - $1", 2, 0, kSavesNothing, two_floats, no_states,
       [](Run a) { return a.in[0] - a.in[1]; }},
      {"exp", "at::exp(-at::softplus($0))", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return at::exp(-at::softplus(a.in[0])); }},
      {"reciprocal", "at::reciprocal($0.square() + 0.1)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return at::reciprocal(a.in[0].square() + 0.1); }},
      {"sqrt", "at::sqrt($0.square() + 1e-4)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return at::sqrt(a.in[0].square() + 1e-4); }},
      {"magnitude", "$0.abs()", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return a.in[0].abs(); }},
      {"clamp", "$0.clamp(-$n, $n)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return a.in[0].clamp(-a.number, a.number); }},
      {"maximum", "at::maximum($0, $1)", 2, 0, kPlain, two_floats, no_states,
       [](Run a) { return at::maximum(a.in[0], a.in[1]); }},
      {"routed", "$0.mean().item<double>() > 0 ? at::relu($0) : at::tanh($0)", 1, 0, kPlain,
       one_float, no_states,
       [](Run a) {
         return a.in[0].mean().item<double>() > 0 ? at::relu(a.in[0]) : at::tanh(a.in[0]);
       }},
      {"add", "$0 + $1", 2, 0, kSavesNothing, two_floats, no_states,
       [](Run a) { return a.in[0] + a.in[1]; }},
      {"mul", "$0 * $1", 2, 0, kPlain, two_floats, no_states,
       [](Run a) { return a.in[0] * a.in[1]; }},
  };
}

/// Reductions of the features, and what is made of them.
std::vector<Operator> reductions() {
  return {
      {"unit_length", "$0 / $0.norm(2, -1, true).clamp_min(1e-3)", 1, 0, kPlain, one_float,
       no_states, [](Run a) { return a.in[0] / a.in[0].norm(2, -1, true).clamp_min(1e-3); }},
      {"standardized", "$0 / ($0.std(-1, false, true) + 0.01)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return a.in[0] / (a.in[0].std(-1, false, true) + 0.01); }},
      {"rms_norm", "$0 * at::rsqrt($0.square().mean(-1, true) + 1e-3) * $p", 1, 0, kPlain,
       features_last, scale_only,
       [](Run a) {
         return a.in[0] * at::rsqrt(a.in[0].square().mean(-1, true) + 1e-3) *
                a.states[0].to(a.in[0].scalar_type());
       }},
      {"minus_logsumexp", "$0 - $0.logsumexp(-1, true)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return a.in[0] - a.in[0].logsumexp(-1, true); }},
      {"minus_largest", "$0 - $0.amax(-1, true)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return a.in[0] - a.in[0].amax(-1, true); }},
      {"sorted", "std::get<0>($0.sort(-1))", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return std::get<0>(a.in[0].sort(-1)); }},
      {"product", "$0 * at::sigmoid($0).prod(-1, true).to($0.scalar_type())", 1, 0, kPlain,
       one_float, no_states,
       [](Run a) {
         return a.in[0] * at::sigmoid(a.in[0]).prod(-1, true).to(a.in[0].scalar_type());
       }},
      {"cumulated", "$0.cumsum(-1) * 0.3", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return a.in[0].cumsum(-1) * 0.3; }},
  };
}

/// The operators that work in place, with autograd and without.
std::vector<Operator> in_place() {
  return {
      {"relu_",
       "$0.relu_()",
       1,
       0,
       {.writes_input = true},
       one_float,
       no_states,
       [](Run a) {
         at::Tensor h = a.in[0];
         return h.relu_();
       }},
      {"mul_", "$0.mul_($n)", 1, 0, kInPlace, one_float, no_states,
       [](Run a) {
         at::Tensor h = a.in[0];
         return h.mul_(a.number);
       }},
      {"no_grad_clamp_", "no_grad([&] { $0.clamp_(-$n, $n); }, $0)", 1, 0, kInPlace, one_float,
       no_states,
       [](Run a) {
         at::Tensor h = a.in[0];
         const at::NoGradGuard no_grad;
         h.clamp_(-a.number, a.number);
         return h;
       }},
      {"write_half",
       "written($0.clone(), [&](at::Tensor h) { h.narrow(-1, 0, h.size(-1) / 2).mul_($n); })", 1, 0,
       kSavesNothing, one_float, no_states,
       [](Run a) {
         at::Tensor h = a.in[0].clone();
         h.narrow(-1, 0, h.size(-1) / 2).mul_(a.number);
         return h;
       }},
  };
}

/// Views, casts and layouts.
std::vector<Operator> views() {
  return {
      {"flip_halves", "at::cat({$0.chunk(2, -1)[1], $0.chunk(2, -1)[0]}, -1)", 1, 0, kPlain,
       one_float, no_states,
       [](Run a) {
         const auto halves = a.in[0].chunk(2, -1);
         return at::cat({halves[1], halves[0]}, -1);
       }},
      {"view", "$0.view($0.sizes())", 1, 0, kView, one_float, no_states,
       [](Run a) { return a.in[0].reshape(a.in[0].sizes()); }},
      {"cast", "$0.to(at::kBFloat16).to($0.scalar_type())", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return a.in[0].to(at::kBFloat16).to(a.in[0].scalar_type()); }},
      {"double_inside", "at::tanh($0.to(at::kDouble)).to($0.scalar_type())", 1, 0, kPlain,
       one_float, no_states,
       [](Run a) { return at::tanh(a.in[0].to(at::kDouble)).to(a.in[0].scalar_type()); }},
      {"neg_view", "at::_neg_view($0)", 1, 0, kView, one_float, no_states,
       [](Run a) { return at::_neg_view(a.in[0]); }},
      {"channels_last", "$0.contiguous(at::MemoryFormat::ChannelsLast)", 1, 0, kView, image_only,
       no_states, [](Run a) { return a.in[0].contiguous(at::MemoryFormat::ChannelsLast); }},
      {"as_sequence", "$0.flatten(2).transpose(1, 2)", 1, 0, kView, as_sequence, no_states,
       [](Run a) { return a.in[0].flatten(2).transpose(1, 2); }},
      {"detach", "$0 - $0.detach().mean()", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return a.in[0] - a.in[0].detach().mean(); }},
  };
}

/// Complex numbers, whose conjugates and negatives are lazy.
std::vector<Operator> complex_numbers() {
  return {
      {"fft", "at::fft_fft($0)", 1, 0, kPlain, to_complex, no_states,
       [](Run a) { return at::fft_fft(a.in[0]); }},
      {"conj", "$0.conj()", 1, 0, kView, one_complex, no_states,
       [](Run a) { return a.in[0].conj(); }},
      {"complex_mul", "$0 * $1", 2, 0, kPlain, two_complex, no_states,
       [](Run a) { return a.in[0] * a.in[1]; }},
      {"conj_products", "$0 * $1.conj() + $1 * $0.conj()", 2, 0, kPlain, two_complex, no_states,
       [](Run a) { return a.in[0] * a.in[1].conj() + a.in[1] * a.in[0].conj(); }},
      {"complex_add", "$0 + $1", 2, 0, kPlain, two_complex, no_states,
       [](Run a) { return a.in[0] + a.in[1]; }},
      {"imag", "at::imag($0)", 1, 0, kView, to_float, no_states,
       [](Run a) { return at::imag(a.in[0]); }},
      {"abs", "at::abs($0)", 1, 0, kPlain, to_float, no_states,
       [](Run a) { return at::abs(a.in[0]); }},
  };
}

/// Masks and probabilities.
std::vector<Operator> masks() {
  return {
      {"positive", "$0 > 0", 1, 0, kPlain, to_mask, no_states, [](Run a) { return a.in[0] > 0; }},
      {"masked_fill", "$0.masked_fill($1, $n)", 2, 0, kPlain, float_and_mask, no_states,
       [](Run a) { return a.in[0].masked_fill(a.in[1], a.number); }},
      {"where", "at::where($1, $0, $0 * $n)", 2, 0, kPlain, float_and_mask, no_states,
       [](Run a) { return at::where(a.in[1], a.in[0], a.in[0] * a.number); }},
      {"softmax", "at::softmax($0, -1)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return at::softmax(a.in[0], -1); }},
      {"masked_log_softmax", "masked_log_softmax($0)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return masked_log_softmax(a.in[0]); }},
      {"cross_entropy", "$0 + cross_entropy($0)", 1, 0, kPlain, vector_only, no_states,
       [](Run a) { return a.in[0] + cross_entropy(a.in[0]); }},
      {"binary_cross_entropy", "binary_cross_entropy($0)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return binary_cross_entropy(a.in[0]); }},
      {"gaussian_likelihood", "gaussian_likelihood($0, $1)", 2, 0, kPlain, two_floats, no_states,
       [](Run a) { return gaussian_likelihood(a.in[0], a.in[1]); }},
      {"nearest_code",
       "nearest_code($0, $p)",
       1,
       0,
       {.no_autocast = true},
       vector_only,
       square,
       [](Run a) { return nearest_code(a.in[0], a.states[0]); }},
      {"dropout", "at::dropout($0, 0.3, true)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return at::dropout(a.in[0], 0.3, a.training); }},
  };
}

/// Layers.
std::vector<Operator> layers() {
  return {
      {"linear", "at::linear($0, $p)", 1, 0, kLowered, features_last, square,
       [](Run a) { return at::linear(a.in[0], a.states[0]); }},
      {"linear_bias", "at::linear($0, $p, $q)", 1, 0, kLoweredWithBias, features_last, with_bias,
       [](Run a) { return at::linear(a.in[0], a.states[0], a.states[1]); }},
      {"transposed", "at::matmul($0, $p)", 1, 0, kLowered, features_last, square,
       [](Run a) { return at::matmul(a.in[0], a.states[0]); }},
      {"weight_norm", "at::linear($0, $p / $p.norm())", 1, 0, kLowered, features_last, square,
       [](Run a) { return at::linear(a.in[0], a.states[0] / a.states[0].norm()); }},
      {"conv", "at::conv2d($0, $p, {}, 1, 1)", 1, 0, kLowered, image_only, kernel_only,
       [](Run a) { return at::conv2d(a.in[0], a.states[0], {}, 1, 1); }},
      {"conv_bias", "at::conv2d($0, $p, $q, 1, 1)", 1, 0, kLoweredWithBias, image_only,
       kernel_and_bias, [](Run a) { return at::conv2d(a.in[0], a.states[0], a.states[1], 1, 1); }},
      {"max_pool", "at::max_pool2d($0, 2)", 1, 0, kPlain, pooled, no_states,
       [](Run a) { return at::max_pool2d(a.in[0], 2); }},
      {"avg_pool", "at::avg_pool2d($0, 2)", 1, 0, kPlain, pooled, no_states,
       [](Run a) { return at::avg_pool2d(a.in[0], 2); }},
      {"upsample", "at::upsample_nearest2d($0, {$0.size(2) * 2, $0.size(3) * 2})", 1, 0, kPlain,
       upsampled, no_states,
       [](Run a) {
         return at::upsample_nearest2d(a.in[0], {a.in[0].size(2) * 2, a.in[0].size(3) * 2});
       }},
      {"mean_of_image", "$0.mean({2, 3})", 1, 0, kPlain, mean_of_image, no_states,
       [](Run a) {
         return a.in[0].mean(at::IntArrayRef{2, 3});
       }},
      {"mean_of_sequence", "$0.mean(1)", 1, 0, kPlain, mean_of_sequence, no_states,
       [](Run a) { return a.in[0].mean(1); }},
      {"layer_norm", "at::layer_norm($0, {$0.size(-1)}, $p, $q)", 1, 0, kPlain, features_last,
       affine,
       [](Run a) { return at::layer_norm(a.in[0], {a.in[0].size(-1)}, a.states[0], a.states[1]); }},
      {"group_norm", "at::group_norm($0.contiguous(), 2, $p, $q)", 1, 0, kPlain, image_only, affine,
       [](Run a) { return at::group_norm(a.in[0].contiguous(), 2, a.states[0], a.states[1]); }},
      {"batch_norm", "at::batch_norm($0, $p, $q, $r, $s, true, 0.1, 1e-5, false)", 1, 2, kPlain,
       image_only, affine_and_running,
       [](Run a) {
         return at::batch_norm(a.in[0], a.states[0], a.states[1], a.states[2], a.states[3],
                               a.training, 0.1, 1e-5, false);
       }},
      {"embedding", "at::embedding($p, $0)", 1, 0, kPlain, embedded, table,
       [](Run a) { return at::embedding(a.states[0], a.in[0]); }},
      {"attention",
       "at::scaled_dot_product_attention($0, $0, $0)",
       1,
       0,
       {.once_differentiable = true, .lowered = true},
       sequence_only,
       no_states,
       [](Run a) { return at::scaled_dot_product_attention(a.in[0], a.in[0], a.in[0]); }},
      {"masked_attention",
       "masked_attention($0)",
       1,
       0,
       {.lowered = true},
       sequence_only,
       no_states,
       [](Run a) { return masked_attention(a.in[0]); }},
      {"added_mask_attention",
       "added_mask_attention($0)",
       1,
       0,
       {.once_differentiable = true, .lowered = true},
       sequence_only,
       no_states,
       [](Run a) { return added_mask_attention(a.in[0]); }},
      {"weight_normalized", "at::linear($0, at::_weight_norm($p, $q, 0))", 1, 0, kLowered,
       features_last, square_and_scale,
       [](Run a) { return at::linear(a.in[0], at::_weight_norm(a.states[0], a.states[1], 0)); }},
      {"lstm", "lstm($0, $p, $q)", 1, 0, kPlain, sequence_only, four_gates,
       [](Run a) { return lstm(a.in[0], a.states[0], a.states[1]); }},
      {"gru", "gru($0, $p, $q)", 1, 0, kPlain, sequence_only, three_gates,
       [](Run a) { return gru(a.in[0], a.states[0], a.states[1]); }},
      {"sparse_rows_mix",
       "sparse_rows_mix($0)",
       1,
       0,
       {.no_autocast = true},
       vector_only,
       no_states,
       [](Run a) { return sparse_rows_mix(a.in[0]); }},
      {"sparse_mix",
       "sparse_mix($0)",
       1,
       0,
       {.no_autocast = true},
       vector_only,
       no_states,
       [](Run a) { return sparse_mix(a.in[0]); }},
  };
}

/// Functions of the program's own.
std::vector<Operator> custom_functions() {
  return {
      {"reentrant_linear",
       "reentrant_linear($0, $p)",
       1,
       0,
       {.once_differentiable = true, .lowered = true},
       features_last,
       square,
       [](Run a) { return reentrant_linear(a.in[0], a.states[0]); }},
      {"grad_setting_linear",
       "grad_setting_linear($0, $p)",
       1,
       0,
       {.once_differentiable = true, .owns_states = true, .lowered = true},
       features_last,
       square,
       [](Run a) { return grad_setting_linear(a.in[0], a.states[0]); }},
      {"overwriting_square",
       "overwriting_square($0)",
       1,
       0,
       {.once_differentiable = true, .backward_once = true},
       one_float,
       no_states,
       [](Run a) { return overwriting_square(a.in[0]); }},
  };
}

/// States that forward writes.
std::vector<Operator> written_states() {
  return {
      {"centered_linear",
       "at::linear($0, no_grad([&] { $p.sub_($p.mean()); }, $p))",
       1,
       0,
       {.writes_state = true, .owns_states = true, .lowered = true},
       features_last,
       square,
       [](Run a) {
         at::Tensor w = a.states[0];
         if (a.writes) {
           const at::NoGradGuard no_grad;
           w.sub_(w.mean());
         }
         return at::linear(a.in[0], w);
       }},
      {"running_scale",
       "$0 * no_grad([&] { $p.mul_(0.9).add_(0.1); }, $p)",
       1,
       1,
       {.writes_state = true, .owns_states = true, .no_autocast = true},
       features_last,
       scale_only,
       [](Run a) {
         at::Tensor scale = a.states[0];
         if (a.writes) {
           const at::NoGradGuard no_grad;
           scale.mul_(0.9).add_(0.1);
         }
         return a.in[0] * scale;
       }},
      {"running_shift",
       "$0 + no_grad([&] { $p.mul_(0.9).add_(0.1); }, $p)",
       1,
       1,
       {.owns_states = true, .no_autocast = true},
       features_last,
       scale_only,
       [](Run a) {
         at::Tensor shift = a.states[0];
         if (a.writes) {
           const at::NoGradGuard no_grad;
           shift.mul_(0.9).add_(0.1);
         }
         return a.in[0] + shift;
       }},
      {"spectral_norm",
       "spectral_norm($0, $p, $q, true)",
       1,
       1,
       {.writes_state = true, .owns_states = true, .lowered = true},
       features_last,
       square_and_vector,
       [](Run a) { return spectral_norm(a.in[0], a.states[0], a.states[1], a.writes); }},
  };
}

/// Results that are written by an operator: `out=`, lists, operators of the program's own.
std::vector<Operator> written_results() {
  constexpr Effects kWritesBuffer{.writes_state = true, .owns_states = true, .no_autocast = true};
  return {
      {"gated_by_out", "gated_by_out($0, $n)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return gated_by_out(a.in[0], a.number); }},
      {"gated_by_resized_out", "gated_by_resized_out($0)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return gated_by_resized_out(a.in[0]); }},
      {"gated_by_half_out", "gated_by_half_out($0)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return gated_by_half_out(a.in[0]); }},
      {"running_mean_out", "running_mean_out($0, $p, true)", 1, 1, kWritesBuffer, features_last,
       scale_only, [](Run a) { return running_mean_out(a.in[0], a.states[0], a.writes); }},
      {"scaled_halves", "scaled_halves($0, $n)", 1, 0, kSavesNothing, one_float, no_states,
       [](Run a) { return scaled_halves(a.in[0], a.number); }},
      {"list_products", "list_products($0, $1)", 2, 0, kPlain, two_floats, no_states,
       [](Run a) { return list_products(a.in[0], a.in[1]); }},
      {"list_tanh", "list_tanh($0, $n)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return list_tanh(a.in[0], a.number); }},
      {"list_written", "list_written($0, $n)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return list_written(a.in[0], a.number); }},
      {"scaled_tanh", "scaled_tanh($0, $n)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return scaled_tanh(a.in[0], a.number); }},
      {"gated_by_decay", "gated_by_decay($0, $n)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return gated_by_decay(a.in[0], a.number); }},
      {"summing_hook", "summing_hook($0, $p, true)", 1, 1, kWritesBuffer, features_last, scale_only,
       [](Run a) { return summing_hook(a.in[0], a.states[0], a.writes); }},
  };
}

/// Tensors that are named, quantized, nested or wrapped.
std::vector<Operator> other_forms() {
  constexpr Effects kForm{.once_differentiable = true, .no_autocast = true};
  return {
      {"fake_quantize", "at::fake_quantize_per_tensor_affine($0, 0.05, 3, -128, 127)", 1, 0, kForm,
       float32_only, no_states,
       [](Run a) { return at::fake_quantize_per_tensor_affine(a.in[0], 0.05, 3, -128, 127); }},
      {"quantized_half_square", "half_square($0, Form::kQuantized)", 1, 0, kForm, float32_only,
       no_states, [](Run a) { return half_square(a.in[0], Form::kQuantized); }},
      {"named_half_square", "half_square($0, Form::kNamed)", 1, 0, kForm, one_float, no_states,
       [](Run a) { return half_square(a.in[0], Form::kNamed); }},
      {"nested_half_square", "half_square($0, Form::kNested)", 1, 0, kForm, one_float, no_states,
       [](Run a) { return half_square(a.in[0], Form::kNested); }},
      {"wrapped_half_square", "half_square($0, Form::kWrapped)", 1, 0, kForm, one_float, no_states,
       [](Run a) { return half_square(a.in[0], Form::kWrapped); }},
      {"named_tanh", "unnamed(at::tanh(named($0)))", 1, 0, kForm, one_float, no_states,
       [](Run a) { return unnamed(at::tanh(named(a.in[0]))); }},
      {"named_mul", "unnamed(named($0) * named($1))", 2, 0, kForm, two_floats, no_states,
       [](Run a) { return unnamed(named(a.in[0]) * named(a.in[1])); }},
      {"nested_gelu", "padded(at::gelu(nested($0)), $0)", 1, 0, kForm, long_sequence, no_states,
       [](Run a) { return padded(at::gelu(nested(a.in[0])), a.in[0]); }},
      {"nested_mul", "padded(nested($0) * nested($1), $0)", 2, 0, kForm, two_long_sequences,
       no_states, [](Run a) { return padded(nested(a.in[0]) * nested(a.in[1]), a.in[0]); }},
      {"nested_linear", "padded(at::linear(nested($0), $p), $0)", 1, 0, kForm, long_sequence,
       square, [](Run a) { return padded(at::linear(nested(a.in[0]), a.states[0]), a.in[0]); }},
  };
}

/// Operators whose constant, or whose caller's choice by it, says what may be rounded.
std::vector<Operator> steered() {
  constexpr Effects kSteered{.once_differentiable = true, .lowered = true};
  return {
      {"softplus_beta", "at::softplus($0, 4 * $n)", 1, 0, kPlain, one_float, no_states,
       [](Run a) { return at::softplus(a.in[0], 4 * a.number); }},
      {"power", "power($0, $p, $n)", 1, 0, kSteered, features_last, square,
       [](Run a) { return power(a.in[0], a.states[0], a.number); }},
      {"scaled_attention",
       "at::scaled_dot_product_attention($0, $0, $0, {}, 0, false, $n)",
       1,
       0,
       {.once_differentiable = true, .lowered = true},
       sequence_only,
       no_states,
       [](Run a) {
         return at::scaled_dot_product_attention(a.in[0], a.in[0], a.in[0], {}, 0, false, a.number);
       }},
      {"older_view", "older_view($0, $p, $n)", 1, 0, kSteered, features_last, square,
       [](Run a) { return older_view(a.in[0], a.states[0], a.number); }},
      {"written_part", "written_part($0, $p, $n)", 1, 0, kSteered, features_last, square,
       [](Run a) { return written_part(a.in[0], a.states[0], a.number); }},
  };
}

}  // namespace

const std::vector<Operator>& first_operators() {
  static const std::vector<Operator> first = [] {
    std::vector<Operator> together;
    for (const auto& group : {element_wise(), reductions(), in_place(), views(), complex_numbers(),
                              masks(), layers(), custom_functions(), written_states()}) {
      together.insert(together.end(), group.begin(), group.end());
    }
    return together;
  }();
  return first;
}

const std::vector<Operator>& later_operators() {
  static const std::vector<Operator> later = written_results();
  return later;
}

const std::vector<Operator>& formed_operators() {
  static const std::vector<Operator> formed = other_forms();
  return formed;
}

const std::vector<Operator>& varying_operators() {
  static const std::vector<Operator> varying = steered();
  return varying;
}

const std::vector<Operator>& operators() {
  static const std::vector<Operator> all = [] {
    std::vector<Operator> together = first_operators();
    for (const auto& group : {later_operators(), formed_operators(), varying_operators()}) {
      together.insert(together.end(), group.begin(), group.end());
    }
    return together;
  }();
  return all;
}

const Operator& find_operator(std::string_view name) {
  const auto& all = operators();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Operator& one) { return one.name == name; });
  TORCH_CHECK(found != all.end(), "programs: operator: ", name, " (one of operators())");
  return *found;
}

}  // namespace noisemark::memopt::programs
