#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/result.h"

/// What is installed around the binary.
namespace noisemark::suite {

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
