#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace noisemark::memopt {

/// Parameter name -> name of the block it belongs to, from names and shapes alone: a block is a
/// module with at least two matrix or convolution weights below it, none of whose children is a
/// block, such as a residual or an attention block ("downs.0.1"). A parameter outside every block
/// belongs to the module that owns it ("conv_in").
[[nodiscard]] std::unordered_map<std::string, std::string> segments_of(
    const std::vector<std::pair<std::string, at::Tensor>>& parameters);

}  // namespace noisemark::memopt
