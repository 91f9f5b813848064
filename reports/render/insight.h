#pragma once

#include <filesystem>
#include <string>

namespace noisemark::reports {

/// Sentences of a report that its result alone cannot say: `noisemark report` finds them in what
/// other commands left, and notes them in insight.json beside the result.
struct Insight {
  std::string limit;  ///< what limits the speed, by a profile (reports/profile/limit.h)
  std::string since;  ///< what changed since BASE (reports/compare/since.h)
};

inline constexpr const char* kInsightFile = "insight.json";

/// Returns the notes in `folder` about the result.json of this digest, empty where there are none.
/// Throws Error (bad input) for a file that is none of ours, or was changed.
[[nodiscard]] Insight read_insight(const std::filesystem::path& folder,
                                   const std::string& result_sha256);

/// Notes it, or removes the file where there is nothing to note. Throws Error (cannot write).
void write_insight(const std::filesystem::path& folder, const std::string& result_sha256,
                   const Insight& insight);

}  // namespace noisemark::reports
