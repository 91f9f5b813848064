#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace noisemark::memopt {

/// The type that a tensor was cast from, as autograd tells it: the tensor, or what it is a view of,
/// is the result of a cast, fills its memory with that and was not written since. So each of its
/// elements, and of its memory, is a value of that type. Empty where autograd does not say so.
/// Memory that is written past autograd's counters, as through a pointer, is not seen.
[[nodiscard]] std::optional<at::ScalarType> cast_from(const at::Tensor& tensor);

}  // namespace noisemark::memopt
