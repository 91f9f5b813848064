#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

/// Arrays in NumPy's .npy format (numpy.lib.format): versions 1.0, 2.0 and 3.0 are read, 1.0 is
/// written. Element types: float64, float32, int64, uint8.
namespace noisemark::suite {

/// On the CPU, row-major, owning its memory; an array in Fortran order is turned. Throws Error,
/// exit code 2, naming the file and what is wrong with it: missing, no .npy, a header that is not
/// one, fewer or more bytes than its shape says, another element type or byte order (Python objects
/// among them, which are programs and are never loaded).
[[nodiscard]] at::Tensor read_npy(const std::string& path);

/// The same of bytes in memory; `where` stands for the file in messages.
[[nodiscard]] at::Tensor parse_npy(std::string_view bytes, const std::string& where);

/// Writes `path` whole or not at all, byte for byte what numpy.save writes of the same array.
/// Throws Error, exit code 74, when it cannot be written. Another element type is a programming
/// error.
void write_npy(const std::string& path, const at::Tensor& tensor);

/// What stands before the array's row-major bytes.
[[nodiscard]] std::string npy_header(const at::Tensor& tensor);

}  // namespace noisemark::suite
