#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>

/// Element types under the names that safetensors gives them ("F32").
namespace noisemark::suite {

/// A type that the format does not know (complex, quantized) is a programming error.
[[nodiscard]] std::string_view dtype_name(c10::ScalarType dtype);

/// Empty for a name that is unknown.
[[nodiscard]] std::optional<c10::ScalarType> dtype_named(std::string_view name);

/// All names, for an error message: "F64, F32, ...".
[[nodiscard]] std::string dtype_names();

}  // namespace noisemark::suite
