#pragma once

#include <ATen/core/Tensor.h>

#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

/// Whether a tensor that autograd saves is the one that was recorded in this slot, as far as can be
/// seen without running anything.
[[nodiscard]] bool fits(const at::Tensor& tensor, const StepGraph& graph, SlotId slot);

}  // namespace noisemark::memopt
