#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "suite/data/resize.h"

namespace noisemark::suite::test {

/// A folder of its own for one test, removed with everything in it at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Writes a file, making its folders.
  std::filesystem::path write(const std::string& name, const std::vector<uint8_t>& bytes) const;

 private:
  std::filesystem::path path_;
};

/// Deterministic pixels without symmetry: (3 x^2 + 5 y^2 + 7 x y + 91 c) mod 256.
[[nodiscard]] Picture test_picture(int64_t width, int64_t height, int64_t channels);

[[nodiscard]] std::vector<uint8_t> encode_png(const Picture& picture);
/// Gray, RGB or CMYK, by the number of channels.
[[nodiscard]] std::vector<uint8_t> encode_jpeg(const Picture& picture, int quality);

}  // namespace noisemark::suite::test
