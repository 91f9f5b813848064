#pragma once

#include <string>
#include <vector>

namespace noisemark::suite {

/// The set "build" of containers/apt-packages.txt, as it was when this program was configured.
[[nodiscard]] const std::vector<std::string>& listed_packages();

}  // namespace noisemark::suite
