#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace noisemark::suite {

/// Features that were computed already, in a folder, so that an evaluation that was killed goes on
/// where it was. One safetensors file per range of pictures, below a folder of the key; written
/// beside its place, flushed and renamed, with the key, the range and a SHA-256 of the values
/// inside, so that half a file, a changed one and one of another set are never taken for features.
class FeatureCache {
 public:
  /// `key` is a SHA-256 of all that the features depend on. Throws Error, exit code 74, when the
  /// folder cannot be made.
  FeatureCache(const std::filesystem::path& folder, std::string key);

  /// [end - begin, d] of pictures [begin, end), or nothing, also where the file is damaged or not
  /// of this key: it is then computed and written again.
  [[nodiscard]] std::optional<at::Tensor> load(int64_t begin, int64_t end) const;

  /// Throws Error, exit code 74.
  void store(int64_t begin, int64_t end, const at::Tensor& features) const;

  [[nodiscard]] std::filesystem::path file(int64_t begin, int64_t end) const;

 private:
  std::filesystem::path folder_;
  std::string key_;
};

}  // namespace noisemark::suite
