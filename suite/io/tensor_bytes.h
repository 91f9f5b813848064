#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace noisemark::suite {

/// The elements in row-major order on the CPU; shares memory where they already are.
[[nodiscard]] inline at::Tensor row_major_on_cpu(const at::Tensor& tensor) {
  return tensor.detach().cpu().contiguous();
}

/// The bytes of a tensor from row_major_on_cpu(); valid as long as it lives.
[[nodiscard]] inline std::string_view bytes_of(const at::Tensor& row_major) {
  return {static_cast<const char*>(row_major.const_data_ptr()), row_major.nbytes()};
}

}  // namespace noisemark::suite
