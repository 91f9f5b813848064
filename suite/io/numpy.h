#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

#include "suite/io/safetensors.h"
#include "suite/io/zip.h"

/// Arrays in NumPy's .npy format (numpy.lib.format): versions 1.0, 2.0 and 3.0 are read, 1.0 is
/// written. Element types: float64, float32, int64, uint8.

namespace noisemark::suite {

/// The array on the CPU, row-major, owning its memory; an array in Fortran order is turned. Throws
/// Error, exit code 2, naming the file and what is wrong with it: missing, no .npy, a header that
/// is not one, fewer or more bytes than its shape says, another element type or byte order (Python
/// objects among them, which are programs and are never loaded).
[[nodiscard]] at::Tensor read_npy(const std::string& path);

/// The same of bytes in memory; `where` stands for the file in messages.
[[nodiscard]] at::Tensor parse_npy(std::string_view bytes, const std::string& where);

/// Writes `path` whole or not at all, byte for byte what numpy.save writes of the same array.
/// Throws Error, exit code 74, when it cannot be written. Another element type is a programming
/// error.
void write_npy(const std::string& path, const at::Tensor& tensor);

/// Returns what stands before the array's row-major bytes.
[[nodiscard]] std::string npy_header(const at::Tensor& tensor);

/// NumPy's .npz: a ZIP archive of .npy arrays, stored (numpy.savez) or deflated
/// (numpy.savez_compressed). An array is read when it is asked for, so that others may be of types
/// that we do not know.
class NpzFile {
 public:
  /// Throws Error, exit code 2, as ZipFile does.
  explicit NpzFile(const std::string& path) : zip_(path) {}

  /// The names without ".npy", in the order of the archive.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool has(std::string_view name) const;

  /// Throws Error, exit code 2: absent (with the names that are there), damaged, and as parse_npy.
  [[nodiscard]] at::Tensor array(const std::string& name) const;

  [[nodiscard]] const std::string& path() const { return zip_.path(); }

 private:
  ZipFile zip_;
};

/// Writes `path` whole or not at all, as numpy.savez would; equal arrays give equal bytes. Throws
/// Error, exit code 74.
void write_npz(const std::string& path, const NamedTensors& arrays);

}  // namespace noisemark::suite
