#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

/// Returns whether the operator is a norm that subtracts a mean and divides by a deviation of its
/// first argument, and that is this value.
[[nodiscard]] bool normalizes(const StepGraph& graph, OperatorId op, ValueId value);

/// Returns whether `rounded` serves the derivative of such a norm in the place of `x`. The
/// derivative reads the distance to the mean in deviations, so an error that is small beside the
/// elements may be large there: where the mean is much larger than the deviation, or where elements
/// that share a range are normalized apart. The error may be as large as the deviation, on average
/// over what is normalized together, and over the gradients of `x`, which are the larger the
/// smaller it is. Waits for the device.
[[nodiscard]] bool rounds_within_spread(const RecordedOperator& norm, const at::Tensor& x,
                                        const at::Tensor& rounded);

/// Returns whether the value is what an activation saved that has flat ends: the result of a tanh,
/// sigmoid or softmax, or the argument of a silu, gelu or softplus. Where the argument is large, or
/// far below 0, the slope is smaller than any rounding leaves it.
[[nodiscard]] bool saturates(const RecordedOperator& op, ValueId value);

/// Returns whether `rounded` serves the derivative of such an operator in the place of `saved`: the
/// error of the slopes may be as large as they are, on average, and few slopes may be so small that
/// what they are multiplied by may be of any size. Waits for the device.
[[nodiscard]] bool rounds_within_slope(const RecordedOperator& op, const at::Tensor& saved,
                                       const at::Tensor& rounded);

/// Returns whether the value is what a rectifier saved, whose slope is a step at some element: a
/// relu, leaky_relu, prelu or threshold.
[[nodiscard]] bool rectifies(const RecordedOperator& op, ValueId value);

/// Returns whether `rounded` serves such an operator in the place of `saved`: at most half as many
/// elements as are on the steep side may change theirs. Waits for the device.
[[nodiscard]] bool rounds_within_sides(const RecordedOperator& op, const at::Tensor& saved,
                                       const at::Tensor& rounded);

/// Returns whether the derivative of the operator multiplies by what it saved.
[[nodiscard]] bool multiplies(const RecordedOperator& op);

/// Returns whether `rounded` serves such a derivative in the place of `x`. A few elements may be so
/// large that a rounding which suits them leaves nothing of the others, while the gradient comes
/// from the others alone. The error of elements below the mean may be a few times what they are,
/// and few rows may have one that is larger than they are. Waits for the device.
[[nodiscard]] bool rounds_within_small(const at::Tensor& x, const at::Tensor& rounded);

/// Returns whether one of these operators saved the value, and looks at more than the size of a
/// rounding.
[[nodiscard]] bool is_looked_at(const StepGraph& graph, OperatorId saver, ValueId value);

/// Returns whether `rounded` serves the operator that saved `saved` for this value in its place, by
/// the rule of the operator; true for an attention, and where there is none.
[[nodiscard]] bool serves_saver(const StepGraph& graph, OperatorId saver, ValueId value,
                                const at::Tensor& saved, const at::Tensor& rounded);

/// Returns whether the error of `rounded` is no larger than `saved`. Values that are made again
/// from rounded ones may nearly cancel. Waits for the device.
[[nodiscard]] bool rounds_within_size(const at::Tensor& saved, const at::Tensor& rounded);

/// Returns whether the operator is an attention that recomputes its logits in backward.
[[nodiscard]] bool makes_logits_again(const RecordedOperator& op);

/// The query and the key of such an attention.
[[nodiscard]] ValueId logits_query(const RecordedOperator& attention);
[[nodiscard]] ValueId logits_key(const RecordedOperator& attention);
[[nodiscard]] bool is_of_logits(const RecordedOperator& attention, ValueId id);

/// A part of `x`, which one of these operators saved, of about `elements`, and of whole rows that
/// are normalized together: another one for each `turn`. A codec groups its elements as in `x`.
[[nodiscard]] at::Tensor sample_for(const RecordedOperator& saver, const at::Tensor& x,
                                    int64_t elements, int64_t turn);

/// A few rows of a query or key, outside of the memory that tensors have.
struct SomeRows {
  std::vector<float> elements;
  int64_t width = 0;

  /// Takes them from `x` [N, H, L, E] of a CPU: others for each `turn`.
  SomeRows(const at::Tensor& x, int64_t turn);
  /// The largest norm of a row's distance to that of `other`; without it, of a row.
  [[nodiscard]] double largest_distance(const SomeRows* other = nullptr) const;
};

/// The largest norm of a row of query or key. Waits for the device.
[[nodiscard]] double largest_row(const at::Tensor& x);
/// The deviation of the logits of such an attention, from the largest rows of query and key as if
/// their directions were random; `width` elements are in a row.
[[nodiscard]] double logits_deviation(const RecordedOperator& attention, int64_t width,
                                      double largest_query, double largest_key);
/// Beyond this deviation most weights are near 0 or 1. Their gradients are what is left where
/// value and result cancel, and smaller than what a rounding of any of the four leaves.
inline constexpr double kMostLogits = 8;
/// The largest deviation of what rounding adds to the logits. Backward exponentiates them against
/// the sums of forward, so that the error of a logit is a factor of its weight.
inline constexpr double kMostOfALogit = 1;

}  // namespace noisemark::memopt
