#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

/// The question that the derivative of an operator asks of a rounding of what it saved, beside its
/// size.
enum class Look : uint8_t {
  kNone,
  kLogits,  ///< it asks by how much a logit of an attention moves (logits_deviation())
  kSlope,   ///< it asks whether the slopes of an activation with flat ends are left
  kSpread,  ///< it asks how large the error is beside the deviation of what a norm reads
  kSides,   ///< it asks how many elements come to the other side of a rectifier's step
  kSmall,   ///< it asks whether small elements and rows of what a product multiplies by are left
};
[[nodiscard]] Look look_of(const StepGraph& graph, OperatorId saver, ValueId value);
/// Every pass asks it; others are many, and passes under a budget have no room for them.
[[nodiscard]] bool is_of_every_pass(Look look);
/// Returns whether `rounded` serves the operator that saved `saved` in its place; true for kNone,
/// and for kLogits, which takes more than one tensor. Waits for the device.
[[nodiscard]] bool serves(Look look, const RecordedOperator& saver, const at::Tensor& saved,
                          const at::Tensor& rounded);

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
