#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reports/table.h"

namespace noisemark::reports {

/// Results that belong together.
struct CollectedResults {
  std::string title;  ///< of the suite, else the path
  std::vector<NamedResult> results;
  std::vector<MissingRun> missing;  ///< runs of the suite without a result of their own
};

/// Of the folder of a suite; empty where there is no suite.json. Throws Error (bad input).
[[nodiscard]] std::optional<CollectedResults> collect_suite(const std::filesystem::path& folder);

/// Of a result.json, its folder, the folder of a suite, or a folder of results. Throws Error (bad
/// input).
[[nodiscard]] CollectedResults collect_results(const std::filesystem::path& path);

}  // namespace noisemark::reports
