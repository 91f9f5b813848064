#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace noisemark::suite {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

struct SafetensorsFile {
  NamedTensors tensors;  ///< tensors on the CPU that own their memory; they stand in file order
  std::map<std::string, std::string> metadata;
};

/// Writes `path` in the safetensors format: to a temporary file beside it, flushed to disk, then
/// renamed, so that `path` is always whole. Throws Error: exit code 74 when it cannot be written
/// (the temporary file is removed).
void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// Throws Error, exit code 2, naming the file and what is wrong with it (missing, truncated,
/// header, overlapping offsets).
[[nodiscard]] SafetensorsFile read_safetensors(const std::string& path);

/// The same of a whole file's bytes in memory; `where` names them in errors.
[[nodiscard]] SafetensorsFile parse_safetensors(std::string_view bytes, const std::string& where);

/// SHA-256 over (name, dtype, shape, bytes) of every tensor in the given order.
[[nodiscard]] std::string tensors_sha256(const NamedTensors& tensors);

/// Says on standard error how many real numbers' tensors are of another type than float32, which
/// networks have, and will be converted; `where` names their file.
void tell_of_conversion(const NamedTensors& tensors, const std::string& where);

/// Throws Error (bad input), which begins with `where`, for a tensor with a NaN or an infinity.
void require_finite(const NamedTensors& tensors, const std::string& where);

/// Copies `source` into `destination` by name, and converts between floating-point types. Throws
/// Error, exit code 2, listing missing, unexpected and misshapen names, and those of whole numbers
/// or booleans where real numbers are wanted, or the reverse.
void copy_by_name(const NamedTensors& source, const NamedTensors& destination,
                  const std::string& where);

}  // namespace noisemark::suite
