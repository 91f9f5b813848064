#pragma once

#include <vector>

namespace torch::autograd {
struct Node;
}

namespace noisemark::memopt {

/// The numbers among an operator's arguments that its autograd node keeps for backward, such as the
/// factor of a multiplication, the dimension of a concatenation or the padding of a convolution.
/// Empty for operators that the table does not have and for numbers that no backward needs (the
/// summand of an addition).
[[nodiscard]] std::vector<double> numbers_of(const torch::autograd::Node& node);

/// The node of a change of type or layout.
[[nodiscard]] bool is_cast(const torch::autograd::Node& node);

}  // namespace noisemark::memopt
