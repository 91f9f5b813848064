#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace torch::autograd {
struct Node;
}

namespace noisemark::memopt {

/// The numbers among an operator's arguments that its autograd node keeps for backward, such as the
/// factor of a multiplication, the dimension of a concatenation or the padding of a convolution. It
/// is empty for operators that the table does not have and for numbers that no backward needs (the
/// summand of an addition).
[[nodiscard]] std::vector<double> numbers_of(const torch::autograd::Node& node);

/// The node of a change of type or layout.
[[nodiscard]] bool is_cast(const torch::autograd::Node& node);

/// The type that a tensor was cast from, as autograd tells it: the tensor, or what it is a view of,
/// is the result of a cast, fills its memory with that and was not written since. So each of its
/// elements, and of its memory, is a value of that type. It is empty where autograd does not say
/// so. Memory that is written past autograd's counters, as through a pointer, is not seen.
[[nodiscard]] std::optional<at::ScalarType> cast_from(const at::Tensor& tensor);

}  // namespace noisemark::memopt
