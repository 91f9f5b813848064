#pragma once

#include <cstddef>
#include <string_view>

namespace noisemark::suite {

/// An operator in which LibTorch calls cuDNN for a convolution. By the index of its arguments.
struct ConvolutionOperator {
  std::string_view name;
  size_t input = 0;
  size_t weight = 0;
  size_t stride = 0;
  bool gradient = false;  ///< of input and weight: one call computes both
};

/// Null for any other. Those that pass the work on (aten::convolution, aten::_convolution) are
/// others: what they do themselves is to bring a tensor into another layout, or to add a bias.
[[nodiscard]] const ConvolutionOperator* find_convolution_operator(std::string_view name);

}  // namespace noisemark::suite
