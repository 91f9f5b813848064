#pragma once

#include <string>
#include <string_view>

namespace noisemark::reports {

/// What a person needs of a GPU kernel's name as C++ writes it: without the type that it returns,
/// its parameters, namespaces and the endings that all kernels of cuDNN have. What is longer than a
/// column of a table loses its middle: «sm90_xmma_fprop ... nhwc_tilesize128x128x64».
[[nodiscard]] std::string short_kernel_name(std::string_view name);

}  // namespace noisemark::reports
