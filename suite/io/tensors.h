#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>

/// Element types under the names that safetensors gives them ("F32").

namespace noisemark::suite {

/// A type that the format does not know (complex, quantized) is a programming error.
[[nodiscard]] std::string_view dtype_name(c10::ScalarType dtype);

/// Returns nothing for a name that is unknown.
[[nodiscard]] std::optional<c10::ScalarType> dtype_named(std::string_view name);

/// All names, for an error message: "F64, F32, ...".
[[nodiscard]] std::string dtype_names();

/// The elements in row-major order on the CPU; shares memory where they already are.
[[nodiscard]] inline at::Tensor row_major_on_cpu(const at::Tensor& tensor) {
  return tensor.detach().cpu().contiguous();
}

/// The bytes of a tensor from row_major_on_cpu(); valid as long as it lives.
[[nodiscard]] inline std::string_view bytes_of(const at::Tensor& row_major) {
  return {static_cast<const char*>(row_major.const_data_ptr()), row_major.nbytes()};
}

}  // namespace noisemark::suite
