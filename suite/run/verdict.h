#pragma once

#include <filesystem>
#include <string>

#include "reports/result.h"

namespace noisemark::suite {

/// What standard output says of a finished run: one line with the verdict and the main figures, one
/// line per failed gate or reason, and where the report is.
[[nodiscard]] std::string verdict_text(const reports::Result& result,
                                       const std::filesystem::path& folder);

}  // namespace noisemark::suite
