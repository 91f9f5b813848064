#include "suite/probes/flop_counter.h"

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <utility>

#include "memopt/accounting/operator_callback.h"

namespace noisemark::suite {
namespace {

using Arguments = c10::ArrayRef<c10::IValue>;

at::IntArrayRef shape(Arguments arguments, size_t index) {
  TORCH_CHECK(index < arguments.size() && arguments[index].isTensor(), "FLOP count: argument ",
              index, " is no tensor");
  return arguments[index].toTensor().sizes();
}

int64_t product(at::IntArrayRef values) {
  int64_t result = 1;
  for (const int64_t value : values) result *= value;
  return result;
}

/// [..., m, k] x [..., k, n]
int64_t product_flops(at::IntArrayRef left, at::IntArrayRef right) {
  return 2 * product(left) * right.back();
}

template <size_t kFirst>
int64_t matrix_product(Arguments arguments) {
  return product_flops(shape(arguments, kFirst), shape(arguments, kFirst + 1));
}

/// Matrix times vector, and vector times vector.
template <size_t kFirst>
int64_t vector_product(Arguments arguments) {
  return 2 * product(shape(arguments, kFirst));
}

struct Convolution {
  at::IntArrayRef input;   ///< [N, C, ...]
  at::IntArrayRef weight;  ///< [out, in / groups, ...], transposed: [in, out / groups, ...]
  bool transposed;

  /// `positions`: where the kernel is laid, the output's or, when transposed, the input's pixels.
  [[nodiscard]] int64_t flops(int64_t positions) const {
    return 2 * input[0] * positions * product(weight);
  }
};

/// A list of one value stands for all dimensions.
int64_t along(const c10::IValue& list, size_t dimension) {
  const auto values = list.toIntVector();
  return values.at(std::min(dimension, values.size() - 1));
}

int64_t convolution_forward(const Convolution& convolution, const c10::IValue& stride,
                            const c10::IValue& padding, const c10::IValue& dilation) {
  if (convolution.transposed) return convolution.flops(product(convolution.input.slice(2)));
  int64_t positions = 1;
  for (size_t d = 0; d + 2 < convolution.input.size(); ++d) {
    const int64_t reach = along(dilation, d) * (convolution.weight[d + 2] - 1) + 1;
    positions *= (convolution.input[d + 2] + 2 * along(padding, d) - reach) / along(stride, d) + 1;
  }
  return convolution.flops(positions);
}

/// (input, weight, bias, stride, padding, dilation, transposed, ...)
int64_t convolution(Arguments a) {
  return convolution_forward({shape(a, 0), shape(a, 1), a[6].toBool()}, a[3], a[4], a[5]);
}

/// (input, weight, bias, padding, stride, dilation, groups)
int64_t mkldnn_convolution(Arguments a) {
  return convolution_forward({shape(a, 0), shape(a, 1), false}, a[4], a[3], a[5]);
}

/// Counts those of input and weight that the output_mask of convolution_backward asks for.
int64_t gradients_wanted(Arguments a) {
  const auto mask = a[10].toBoolList();
  return (mask.get(0) ? 1 : 0) + (mask.get(1) ? 1 : 0);
}

/// (grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
/// groups, output_mask). The gradients of input and weight each repeat the forward's products.
int64_t convolution_backward(Arguments a) {
  const Convolution convolution{shape(a, 1), shape(a, 2), a[7].toBool()};
  const at::IntArrayRef positions = convolution.transposed ? shape(a, 1) : shape(a, 0);
  return gradients_wanted(a) * convolution.flops(product(positions.slice(2)));
}

/// A kernel laid along one dimension: at `positions` places, whose taps fall on `pixels`.
struct Laid {
  int64_t positions, pixels, kernel, stride, padding, dilation;

  /// The taps that fall on pixels and not on padding.
  [[nodiscard]] int64_t taps() const {
    int64_t taps = 0;
    for (int64_t position = 0; position < positions; ++position) {
      for (int64_t tap = 0; tap < kernel; ++tap) {
        const int64_t at = position * stride - padding + tap * dilation;
        if (at >= 0 && at < pixels) ++taps;
      }
    }
    return taps;
  }
};

/// `other`: the sizes of the output, [N, out, ...]; empty: they follow from the arguments.
int64_t without_padding(const Convolution& convolution, at::IntArrayRef other,
                        const c10::IValue& stride, const c10::IValue& padding,
                        const c10::IValue& dilation) {
  int64_t flops = 2 * convolution.input[0] * convolution.weight[0] * convolution.weight[1];
  for (size_t d = 0; d + 2 < convolution.input.size(); ++d) {
    Laid laid{0,
              convolution.input[d + 2],
              convolution.weight[d + 2],
              along(stride, d),
              along(padding, d),
              along(dilation, d)};
    const int64_t reach = laid.dilation * (laid.kernel - 1) + 1;
    if (convolution.transposed) {
      laid.positions = laid.pixels;
      laid.pixels = other.empty() ? (laid.positions - 1) * laid.stride - 2 * laid.padding + reach
                                  : other[d + 2];
    } else {
      laid.positions = (laid.pixels + 2 * laid.padding - reach) / laid.stride + 1;
    }
    flops *= laid.taps();
  }
  return flops;
}

/// Sizes of an attention: query [..., s_q, d], key [..., s_k, d], value [..., s_k, d_v].
struct Attention {
  int64_t rows;  ///< batch * heads * s_q
  int64_t keys, depth, value_depth;
};

template <size_t kQuery>
Attention attention(Arguments arguments) {
  const at::IntArrayRef query = shape(arguments, kQuery);
  return {product(query.slice(0, query.size() - 1)), shape(arguments, kQuery + 1).end()[-2],
          query.back(), shape(arguments, kQuery + 2).back()};
}

int64_t attention_forward(Arguments arguments) {
  const Attention a = attention<0>(arguments);
  return 2 * a.rows * a.keys * (a.depth + a.value_depth);
}

/// The gradients of value, probabilities, query and key. That a fused kernel makes the scores once
/// more is recomputation, which is no work of the model.
int64_t attention_backward(Arguments arguments) {
  const Attention a = attention<1>(arguments);
  return 2 * 2 * a.rows * a.keys * (a.depth + a.value_depth);
}

constexpr std::pair<std::string_view, FlopFormula> kFormulas[] = {
    {"aten::mm", &matrix_product<0>},
    {"aten::addmm", &matrix_product<1>},
    {"aten::_addmm_activation", &matrix_product<1>},
    {"aten::bmm", &matrix_product<0>},
    {"aten::baddbmm", &matrix_product<1>},
    {"aten::mv", &vector_product<0>},
    {"aten::addmv", &vector_product<1>},
    {"aten::dot", &vector_product<0>},
    {"aten::convolution", &convolution},
    {"aten::_convolution", &convolution},
    {"aten::convolution_overrideable", &convolution},
    {"aten::mkldnn_convolution", &mkldnn_convolution},
    {"aten::convolution_backward", &convolution_backward},
    {"aten::_scaled_dot_product_flash_attention", &attention_forward},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", &attention_forward},
    {"aten::_scaled_dot_product_efficient_attention", &attention_forward},
    {"aten::_scaled_dot_product_cudnn_attention", &attention_forward},
    {"aten::_scaled_dot_product_flash_attention_backward", &attention_backward},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", &attention_backward},
    {"aten::_scaled_dot_product_efficient_attention_backward", &attention_backward},
    {"aten::_scaled_dot_product_cudnn_attention_backward", &attention_backward},
};

// The operators under which a profile shows the time of a convolution or an attention, by library
// and device.
constexpr std::string_view kWorkers[] = {
    "aten::mkldnn_convolution",
    "aten::cudnn_convolution",
    "aten::cudnn_convolution_transpose",
    "aten::_conv_depthwise2d",
    "aten::_nnpack_spatial_convolution",
    "aten::_slow_conv2d_forward",
    "aten::slow_conv3d_forward",
    "aten::slow_conv_dilated2d",
    "aten::slow_conv_transpose2d",
    "aten::_flash_attention_forward",
    "aten::_flash_attention_backward",
    "aten::_efficient_attention_forward",
    "aten::_efficient_attention_backward",
    "aten::_cudnn_attention_forward",
    "aten::_cudnn_attention_backward",
};

}  // namespace

bool works_for_another(std::string_view operator_name) {
  return std::find(std::begin(kWorkers), std::end(kWorkers), operator_name) != std::end(kWorkers);
}

FlopFormula find_flop_formula(std::string_view operator_name) {
  for (const auto& [name, formula] : kFormulas) {
    if (name == operator_name) return formula;
  }
  return nullptr;
}

int64_t least_flops(FlopFormula formula, Arguments a) {
  if (formula == &convolution) {
    return without_padding({shape(a, 0), shape(a, 1), a[6].toBool()}, {}, a[3], a[4], a[5]);
  }
  if (formula == &convolution_backward) {
    const Convolution laid{shape(a, 1), shape(a, 2), a[7].toBool()};
    return gradients_wanted(a) * without_padding(laid, shape(a, 0), a[4], a[5], a[6]);
  }
  return formula(a);
}

namespace {

/// Callbacks are plain functions without a place for our data, so the counter is found here.
std::atomic<FlopCounter*> active{nullptr};
/// An operator that has been counted and has not returned yet.
struct CountedContext final : at::ObserverContext {
  int64_t flops = 0;
  std::string worker;  ///< itself, or the operator that it passes the work on to
};
thread_local CountedContext* counted = nullptr;

}  // namespace

FlopCounter::FlopCounter() {
  FlopCounter* none = nullptr;
  TORCH_CHECK(active.compare_exchange_strong(none, this), "FLOPs are being counted already");
  memopt::add_operator_callback(at::RecordFunctionCallback(&on_begin, &on_end)
                                    .needsInputs(true)
                                    .scopes({at::RecordScope::FUNCTION}));
}

FlopCounter::~FlopCounter() {
  memopt::remove_operator_callback(&on_begin);
  active = nullptr;
  counted = nullptr;
}

std::unique_ptr<at::ObserverContext> FlopCounter::on_begin(const at::RecordFunction& function) {
  FlopCounter* counter = active.load();
  if (counter == nullptr) return nullptr;
  if (counted != nullptr) {
    if (works_for_another(function.name())) counted->worker = function.name();
    return nullptr;
  }
  const FlopFormula formula = find_flop_formula(function.name());
  if (formula == nullptr) return nullptr;
  auto context = std::make_unique<CountedContext>();
  context->worker = function.name();
  // LibTorch turns an exception of a callback into a warning, so it is kept for the reader.
  try {
    context->flops = formula(function.inputs());
    counter->by_phase_.at(static_cast<size_t>(counter->phase_)) += context->flops;
  } catch (...) {
    if (!counter->error_) counter->error_ = std::current_exception();
  }
  counted = context.get();
  return context;
}

void FlopCounter::on_end(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  if (context == nullptr) return;
  FlopCounter* counter = active.load();
  if (counter != nullptr && counted != nullptr) {
    counter->by_operator_[counted->worker] += counted->flops;
  }
  counted = nullptr;
}

int64_t FlopCounter::total() const {
  if (error_) std::rethrow_exception(error_);
  return std::accumulate(by_phase_.begin(), by_phase_.end(), int64_t{0});
}

int64_t FlopCounter::of(Phase phase) const {
  if (error_) std::rethrow_exception(error_);
  return by_phase_.at(static_cast<size_t>(phase));
}

std::map<std::string, int64_t> FlopCounter::by_operator() const {
  if (error_) std::rethrow_exception(error_);
  return by_operator_;
}

}  // namespace noisemark::suite
