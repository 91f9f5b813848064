#include "memopt/replay/bounded_rounding.h"

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/max.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/square.h>
#include <ATen/ops/var.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "memopt/replay/value_samples.h"

namespace noisemark::memopt {
namespace {

/// A smaller slope has an argument so large that whatever made it may be large too.
constexpr double kFlat = 1e-5;
constexpr double kMostFlat = 1e-3;  ///< share of the elements
/// A row of a softmax with a larger element is nearly all one.
constexpr double kOne = 0.999;
/// Share of the rows, of which the first under a causal mask is always all one.
constexpr double kMostOneHot = 0.1;
/// A normal distribution in groups of 256 leaves 0.4 with 4 bits and 2 with 2 bits.
constexpr double kMostOfSmall = 4;
/// A normal distribution behind a relu leaves 0.08 with 4 bits and 0.34 with 2. The error of the
/// gradient is the root.
constexpr double kMostChangedSides = 0.5;
/// A norm behind a product gives small rows gradients as large as they are small.
constexpr double kMostLostRows = 0.25;
constexpr double kEndless = std::numeric_limits<double>::infinity();

std::string_view base_name(const RecordedOperator& op) {
  std::string_view name = op.name;
  if (name.ends_with('_')) name.remove_suffix(1);
  return name;
}

bool is_softmax(const RecordedOperator& op) {
  return op.name == "aten::_softmax";
}

int64_t softmax_dimension(const RecordedOperator& softmax) {
  return softmax.arguments.at(1).constant.toInt();
}

bool is_batch_norm(std::string_view name) {
  return name == "aten::native_batch_norm" || name == "aten::cudnn_batch_norm";
}

bool is_norm(std::string_view name) {
  return is_batch_norm(name) || name == "aten::native_layer_norm" ||
         name == "aten::native_group_norm";
}

double epsilon(const RecordedOperator& norm) {
  const size_t place = norm.name == "aten::native_layer_norm" ? 4 : 7;
  return norm.arguments.at(place).constant.toDouble();
}

/// Returns how many channels of an image are normalized together, or how many images of one
/// channel.
int64_t channels_together(const RecordedOperator& norm) {
  if (is_batch_norm(norm.name)) return 1;
  return norm.arguments.at(4).constant.toInt() / norm.arguments.at(6).constant.toInt();
}

/// The elements that are normalized together are a row.
at::Tensor rows_of(const RecordedOperator& norm, const at::Tensor& x) {
  const std::vector<Argument>& arguments = norm.arguments;
  if (is_batch_norm(norm.name)) return x.transpose(0, 1).reshape({x.size(1), -1});
  if (norm.name == "aten::native_layer_norm") {
    int64_t elements = 1;
    for (const int64_t size : arguments.at(1).constant.toIntVector()) elements *= size;
    return x.reshape({-1, elements});
  }
  return x.reshape({-1, channels_together(norm) * arguments.at(5).constant.toInt()});
}

/// The operator is a norm that subtracts a mean and divides by a deviation of its first argument,
/// and that is this value.
bool normalizes(const RecordedOperator& norm, const RecordedValue& recorded, ValueId value) {
  return is_norm(norm.name) && recorded.sizes.size() >= 2 && !norm.arguments.empty() &&
         norm.arguments[0].values == std::vector<ValueId>{value};
}

/// The derivative reads the distance to the mean in deviations, so an error that is small beside
/// the elements may be large there: where the mean is much larger than the deviation, or where
/// elements that share a range are normalized apart. The error may be as large as the deviation, on
/// average over what is normalized together, and over the gradients of `x`, which are the larger
/// the smaller it is. These have the sum 0 over a row, which they lose by the error: what made the
/// row multiplies the rest by the mean of what it read, which shows in that of the row.
bool rounds_within_spread(const RecordedOperator& norm, const at::Tensor& x,
                          const at::Tensor& rounded) {
  if (x.numel() == 0) return true;
  const at::Tensor rows = rows_of(norm, x).to(at::kFloat);
  const at::Tensor error = (rows_of(norm, rounded).to(at::kFloat) - rows).square().mean(-1);
  const at::Tensor weight = (rows.var(-1, /*unbiased=*/false) + epsilon(norm)).reciprocal();
  const at::Tensor parts = error * weight;
  const at::Tensor mean = parts.mean();
  const at::Tensor of_gradient = (parts * weight).mean() / weight.mean();
  const at::Tensor of_sum = (parts * rows.mean(-1).square() * weight).mean();
  return mean.item<double>() <= 1 && of_gradient.item<double>() <= 1 && of_sum.item<double>() <= 1;
}

using Slope = at::Tensor (*)(const at::Tensor& x);

/// An activation that flattens, and its derivative by what it saves: its result, or its argument.
struct Activation {
  std::string_view name;  ///< also of the operator with "_" at its end
  bool saves_result;
  Slope slope;
};

at::Tensor slope_of_result(const at::Tensor& y) {
  return y * (1 - y);
}

at::Tensor slope_of_silu(const at::Tensor& x) {
  const at::Tensor s = x.sigmoid();
  return s * (1 + x * (1 - s));
}

at::Tensor slope_of_gelu(const at::Tensor& x) {
  const at::Tensor below = 0.5 * (1 + at::erf(x * M_SQRT1_2));
  return below + x * at::exp(-0.5 * x * x) * (0.5 * M_SQRT1_2 * M_2_SQRTPI);
}

constexpr std::array kActivations{
    Activation{"aten::tanh", true, [](const at::Tensor& y) { return (y + 1) * (1 - y); }},
    Activation{"aten::sigmoid", true, slope_of_result},
    Activation{"aten::_softmax", true, slope_of_result},
    Activation{"aten::silu", false, slope_of_silu},
    Activation{"aten::gelu", false, slope_of_gelu},
    Activation{"aten::softplus", false, [](const at::Tensor& x) { return x.sigmoid(); }},
};

const Activation* activation_of(const RecordedOperator& op) {
  const auto found =
      std::find_if(kActivations.begin(), kActivations.end(),
                   [&op](const Activation& one) { return one.name == base_name(op); });
  return found == kActivations.end() ? nullptr : &*found;
}

/// The value is what an activation saved that has flat ends: the result of a tanh, sigmoid or
/// softmax, or the argument of a silu, gelu or softplus. Where the argument is large, or far below
/// 0, the slope is smaller than any rounding leaves it.
bool saturates(const RecordedOperator& op, ValueId value) {
  const Activation* activation = activation_of(op);
  if (activation == nullptr) return false;
  if (activation->saves_result) return op.results == std::vector<ValueId>{value};
  return !op.arguments.empty() && op.arguments[0].values == std::vector<ValueId>{value};
}

/// The error of the slopes may be as large as they are, on average, and few slopes may be so small
/// that what they are multiplied by may be of any size.
bool rounds_within_slope(const RecordedOperator& op, const at::Tensor& saved,
                         const at::Tensor& rounded) {
  if (saved.numel() == 0) return true;
  const Slope slope_of = activation_of(op)->slope;
  const double beta =
      op.name == "aten::softplus" ? op.arguments.at(1).constant.toScalar().toDouble() : 1;
  const at::Tensor single = saved.to(at::kFloat) * beta;
  const at::Tensor slope = slope_of(single);
  const at::Tensor flat =
      is_softmax(op) ? single.amax({softmax_dimension(op)}).gt(kOne) : slope.abs().lt(kFlat);
  const double share = is_softmax(op) ? kMostOneHot : kMostFlat;
  if (flat.to(at::kFloat).mean().item<double>() > share) return false;
  const at::Tensor error = (slope_of(rounded.to(at::kFloat) * beta) - slope).square().sum();
  return error.item<double>() <= slope.square().sum().item<double>();
}

/// The element at which a rectifier's slope changes.
double place_of_step(const RecordedOperator& rectifier) {
  return base_name(rectifier) == "aten::threshold"
             ? rectifier.arguments.at(1).constant.toScalar().toDouble()
             : 0;
}

/// The value is what a rectifier saved, whose slope is a step at some element.
bool rectifies(const RecordedOperator& op, ValueId value) {
  constexpr std::array<std::string_view, 4> kRectifiers = {
      "aten::_prelu_kernel", "aten::leaky_relu", "aten::relu", "aten::threshold"};
  const bool is_rectifier =
      std::find(kRectifiers.begin(), kRectifiers.end(), base_name(op)) != kRectifiers.end();
  return is_rectifier && (op.results == std::vector<ValueId>{value} ||
                          op.arguments.at(0).values == std::vector<ValueId>{value});
}

/// The elements that change their side may be half as many as are on the steep side.
bool rounds_within_sides(const RecordedOperator& op, const at::Tensor& saved,
                         const at::Tensor& rounded) {
  const double step = place_of_step(op);
  const at::Tensor steep = saved.gt(step);
  const auto changed = (steep != rounded.gt(step)).sum().item<int64_t>();
  return static_cast<double>(changed) <= kMostChangedSides * steep.sum().item<double>();
}

/// The derivative of the operator multiplies by what it saved.
bool multiplies(const RecordedOperator& op) {
  constexpr std::array<std::string_view, 14> kProducts = {
      "aten::addbmm",  "aten::addcmul", "aten::addmm",       "aten::addmv", "aten::addr",
      "aten::baddbmm", "aten::bmm",     "aten::convolution", "aten::dot",   "aten::linear",
      "aten::mm",      "aten::mul",     "aten::mv",          "aten::pow"};
  return std::find(kProducts.begin(), kProducts.end(), base_name(op)) != kProducts.end();
}

/// A few elements may be so large that a rounding which suits them leaves nothing of the others,
/// while the gradient comes from the others alone. The error of elements below the mean may be a
/// few times what they are, and few rows may have one that is larger than they are.
bool rounds_within_small(const at::Tensor& x, const at::Tensor& rounded) {
  if (x.numel() == 0) return true;
  const at::Tensor single = real_elements(x).to(at::kFloat);
  const at::Tensor size = single.abs();
  const at::Tensor small = size.le(size.mean());
  const auto squared = [&small](const at::Tensor& of) {
    return (of * small).square().sum().item<double>();
  };
  const at::Tensor error = real_elements(rounded).to(at::kFloat) - single;
  if (squared(error) > kMostOfSmall * kMostOfSmall * squared(size)) return false;
  if (x.dim() < 2) return true;
  const at::Tensor of_row = single.square().sum(-1);
  const at::Tensor lost = error.square().sum(-1).gt(of_row).logical_and(of_row.gt(0));
  return lost.to(at::kFloat).mean().item<double>() <= kMostLostRows;
}

}  // namespace

Look look_of(const StepGraph& graph, OperatorId saver, ValueId value) {
  const RecordedOperator& op = graph.operators[static_cast<size_t>(saver)];
  if (makes_logits_again(op)) return Look::kLogits;
  if (at::isComplexType(graph.value(value).dtype)) {
    return multiplies(op) ? Look::kSmall : Look::kNone;
  }
  if (saturates(op, value)) return Look::kSlope;
  if (normalizes(op, graph.value(value), value)) return Look::kSpread;
  if (rectifies(op, value)) return Look::kSides;
  return multiplies(op) ? Look::kSmall : Look::kNone;
}

bool is_of_every_pass(Look look) {
  return look == Look::kLogits || look == Look::kSpread;
}

bool serves(Look look, const RecordedOperator& saver, const at::Tensor& saved,
            const at::Tensor& rounded) {
  switch (look) {
    case Look::kSlope:
      return rounds_within_slope(saver, saved, rounded);
    case Look::kSpread:
      return rounds_within_spread(saver, saved, rounded);
    case Look::kSides:
      return rounds_within_sides(saver, saved, rounded);
    case Look::kSmall:
      return rounds_within_small(saved, rounded);
    case Look::kLogits:
    case Look::kNone:
      return true;
  }
  return true;
}

bool rounds_within_size(const at::Tensor& saved, const at::Tensor& rounded) {
  const at::Tensor single = real_elements(saved).to(at::kFloat);
  const at::Tensor error = (real_elements(rounded).to(at::kFloat) - single).square().sum();
  return error.item<double>() <= single.square().sum().item<double>();
}

bool makes_logits_again(const RecordedOperator& op) {
  return op.name.starts_with("aten::_scaled_dot_product_");
}

ValueId logits_query(const RecordedOperator& attention) {
  return attention.arguments.at(0).values.front();
}

ValueId logits_key(const RecordedOperator& attention) {
  return attention.arguments.at(1).values.front();
}

bool is_of_logits(const RecordedOperator& attention, ValueId id) {
  return id == logits_query(attention) || id == logits_key(attention);
}

namespace {

/// A range of the dimension with at least `unit` indices and about so many elements.
at::Tensor range_of(const at::Tensor& x, int64_t dimension, int64_t elements, int64_t turn,
                    int64_t unit = 1) {
  if (x.numel() <= elements) return x;
  const int64_t units = x.size(dimension) / unit;
  const int64_t count = std::clamp<int64_t>(elements * units / x.numel(), 1, units);
  const auto places = static_cast<uint64_t>(units - count + 1);
  // A turn may be of any size and sign: as unsigned it wraps.
  const uint64_t place = static_cast<uint64_t>(turn) * static_cast<uint64_t>(count) % places;
  return x.narrow(dimension, static_cast<int64_t>(place) * unit, count * unit);
}

}  // namespace

at::Tensor sample_for(const RecordedOperator& saver, const at::Tensor& x, int64_t elements,
                      int64_t turn) {
  if (is_softmax(saver)) {
    if (x.dim() < 2) return x;
    const int64_t rows = (softmax_dimension(saver) + x.dim()) % x.dim();
    at::Tensor part = x;
    for (int64_t d = 0; d < x.dim(); ++d) {
      if (d != rows) part = range_of(part, d, elements, turn);
    }
    return part.contiguous();
  }
  const bool attends = makes_logits_again(saver);
  const bool norm = is_norm(saver.name);
  if (!attends && !norm && x.is_non_overlapping_and_dense()) {
    const int64_t row = x.is_contiguous() && x.dim() > 1 ? x.size(-1) : 1;
    const at::Tensor sample = range_of(x.as_strided({x.numel()}, {1}), 0, elements, turn, row);
    return row > 1 ? sample.unflatten(0, {-1, row}) : sample;
  }
  const bool by_row = saver.name == "aten::native_layer_norm";
  at::Tensor sample = range_of(by_row ? rows_of(saver, x) : x, 0, elements, turn);
  if (attends) {
    sample = range_of(sample, 1, elements, turn);
  } else if (norm && !by_row && sample.is_contiguous()) {
    sample = range_of(sample, 1, elements, turn, channels_together(saver));
  }
  return sample.is_non_overlapping_and_dense() ? sample : sample.contiguous();
}

SomeRows::SomeRows(const at::Tensor& x, int64_t turn) : width(x.size(-1)) {
  constexpr int64_t kRows = 16;
  at::Tensor rows = x;
  while (rows.dim() > 2) rows = rows.select(0, turn % rows.size(0));
  rows = range_of(rows, 0, kRows * width, turn);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, rows.scalar_type(), "SomeRows", [&] {
    const auto* data = rows.const_data_ptr<scalar_t>();
    for (int64_t row = 0; row < rows.size(0); ++row) {
      for (int64_t i = 0; i < width; ++i) {
        elements.push_back(static_cast<float>(data[row * rows.stride(0) + i * rows.stride(1)]));
      }
    }
  });
}

double SomeRows::largest_distance(const SomeRows* other) const {
  double largest = 0;
  for (size_t begin = 0; begin < elements.size(); begin += static_cast<size_t>(width)) {
    double squared = 0;
    for (size_t i = begin; i < begin + static_cast<size_t>(width); ++i) {
      const double distance = elements[i] - (other == nullptr ? 0 : other->elements[i]);
      squared += distance * distance;
    }
    largest = std::max(largest, std::isfinite(squared) ? squared : kEndless);
  }
  return std::sqrt(largest);
}

double largest_row(const at::Tensor& x) {
  if (x.numel() == 0) return 0;
  return at::linalg_vector_norm(x.to(at::kFloat), 2, at::IntArrayRef{-1}).max().item<double>();
}

double logits_deviation(const RecordedOperator& attention, int64_t width, double largest_query,
                        double largest_key) {
  const double root = std::sqrt(static_cast<double>(width));
  const c10::IValue& given = attention.arguments.back().constant;  // the scale comes last in all
  const double scale = given.isDouble() ? given.toDouble() : 1 / root;
  return scale * largest_query * largest_key / root;
}

}  // namespace noisemark::memopt
