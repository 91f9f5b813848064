#pragma once

#include <string_view>

/// Facts that were true when the binary was built; the values are written by CMake.
namespace noisemark::suite {

struct BuildInfo {
  std::string_view version;
  std::string_view type;      ///< "Release"
  std::string_view compiler;  ///< "GNU 12.2.0"
  std::string_view flags;
  std::string_view cuda_compiler;  ///< empty without CUDA
  std::string_view git_commit;     ///< empty when the source was no git checkout
  bool git_dirty = false;
  std::string_view git_diff_sha256;
};

[[nodiscard]] const BuildInfo& build_info();

}  // namespace noisemark::suite
