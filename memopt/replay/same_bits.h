#pragma once

#include <ATen/core/Tensor.h>

namespace noisemark::memopt {

/// Whether two tensors of one device have the same shape, strides and type, and the same bits: -0
/// is not 0, and a NaN is itself. Waits for the device.
[[nodiscard]] bool same_bits(const at::Tensor& a, const at::Tensor& b);

}  // namespace noisemark::memopt
