#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

#include "suite/io/safetensors.h"
#include "suite/io/zip.h"

namespace noisemark::suite {

/// NumPy's .npz: a ZIP archive of .npy arrays, stored (numpy.savez) or deflated
/// (numpy.savez_compressed). An array is read when it is asked for, so that others may be of types
/// that we do not know.
class NpzFile {
 public:
  /// Throws Error, exit code 2, as ZipFile does.
  explicit NpzFile(const std::string& path) : zip_(path) {}

  /// Without ".npy", in the order of the archive.
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
