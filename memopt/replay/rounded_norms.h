#pragma once

#include <ATen/core/Tensor.h>

#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

/// Whether the operator is a norm that subtracts a mean and divides by a deviation of its first
/// argument, and that is this value.
[[nodiscard]] bool normalizes(const StepGraph& graph, OperatorId op, ValueId value);

/// Whether `rounded` serves the derivative of such a norm in the place of `x`. The derivative reads
/// the distance to the mean in deviations, so an error that is small beside the elements may be
/// large there: where the mean is much larger than the deviation, or where elements that share a
/// range are normalized apart. The error may be as large as the deviation, on average over what is
/// normalized together, and over the gradients of `x`, which are the larger the smaller it is.
/// Waits for the device.
[[nodiscard]] bool rounds_within_spread(const RecordedOperator& norm, const at::Tensor& x,
                                        const at::Tensor& rounded);

}  // namespace noisemark::memopt
