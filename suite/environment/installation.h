#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/result/result.h"

/// Describes the binary and what is installed around it.
namespace noisemark::suite {

/// Facts that were true when the binary was built; the values are written by CMake.
struct BuildInfo {
  std::string_view version;
  std::string_view type;      ///< "Release"
  std::string_view compiler;  ///< "GNU 12.2.0"
  std::string_view flags;
  std::string_view cuda_compiler;  ///< is empty without CUDA
  std::string_view git_commit;     ///< is empty when the source was no git checkout
  bool git_dirty = false;
  std::string_view git_diff_sha256;
};

[[nodiscard]] const BuildInfo& build_info();

/// The set "build" of containers/apt-packages.txt, as it was when this program was configured.
[[nodiscard]] const std::vector<std::string>& listed_packages();

/// Versions of the named packages out of the text of /var/lib/dpkg/status; an architecture suffix
/// in the status is ignored, packages that are not installed are left out.
[[nodiscard]] reports::Strings package_versions(std::string_view dpkg_status,
                                                const std::vector<std::string>& packages);

/// The same for what Noisemark links or calls, on this machine. Keys begin with "package ".
[[nodiscard]] reports::Strings installed_packages();

/// "kind" (docker, podman, apptainer, ...), "image" and "digest" where they are known.
[[nodiscard]] reports::Strings describe_container();

/// Variables that change how LibTorch, its libraries or the allocators work. Keys begin with "$".
[[nodiscard]] reports::Strings relevant_variables();

/// LibTorch's commit and the build id of the library that is loaded.
[[nodiscard]] reports::Strings libtorch_identity();

}  // namespace noisemark::suite
