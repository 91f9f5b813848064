#pragma once

#include <ATen/core/Tensor.h>

#include "suite/io/safetensors.h"

namespace noisemark::suite {

/// `parameters` in the order in which a backward pass from `root` begins to make their gradients:
/// the one that forward read last comes first, whatever the order in which the model lists them.
/// Read from the graph behind `root`, whose edges stay after it was used. Those that `root` does
/// not depend on come last; of equals (a layer's weight and bias) the first listed comes first.
[[nodiscard]] NamedTensors in_backward_order(const at::Tensor& root, NamedTensors parameters);

}  // namespace noisemark::suite
