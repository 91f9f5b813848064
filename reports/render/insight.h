#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reports/render/check.h"

namespace noisemark::reports {

/// Sentences of a report that its result alone cannot say: `noisemark report` finds them in what
/// other commands left, and notes them in insight.json beside the result.
struct Insight {
  std::string limit;  ///< what limits the speed, by a profile (reports/profile/limit.h)
  std::string since;  ///< what changed since BASE (reports/compare/since.h)
};

inline constexpr const char* kInsightFile = "insight.json";

/// Returns the notes in `folder` about the result.json of this digest, empty where there are none.
/// Throws Error (bad input) for a file that is none of ours, or was changed. One that cannot be
/// read goes to `unread`, as in read_addition().
[[nodiscard]] Insight read_insight(const std::filesystem::path& folder,
                                   const std::string& result_sha256,
                                   std::vector<Finding>* unread = nullptr);

/// Returns the text of a file beside a result that its report can do without; empty where it is not
/// there. One that cannot be read goes to `unread` with the exit code 0: the report is whole
/// without it. Without `unread` it is thrown.
[[nodiscard]] std::optional<std::string> read_addition(const std::filesystem::path& file,
                                                       std::vector<Finding>* unread);

/// Notes it, or removes the file where there is nothing to note. Throws Error (cannot write).
void write_insight(const std::filesystem::path& folder, const std::string& result_sha256,
                   const Insight& insight);

}  // namespace noisemark::reports
