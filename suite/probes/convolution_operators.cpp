#include "suite/probes/convolution_operators.h"

#include <algorithm>
#include <array>

namespace noisemark::suite {
namespace {

/// Source: the schemas of LibTorch 2.11 (ATen/ops/*_ops.h).
constexpr std::array kOperators{
    ConvolutionOperator{"aten::cudnn_convolution", 0, 1, 3, false},
    ConvolutionOperator{"aten::cudnn_convolution_transpose", 0, 1, 4, false},
    ConvolutionOperator{"aten::convolution_backward", 1, 2, 4, true}};

}  // namespace

const ConvolutionOperator* find_convolution_operator(std::string_view name) {
  const auto* found = std::find_if(kOperators.begin(), kOperators.end(),
                                   [&](const auto& one) { return one.name == name; });
  return found == kOperators.end() ? nullptr : found;
}

}  // namespace noisemark::suite
