#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reports/check.h"
#include "reports/quality/judge.h"

/// quality.md and quality.json in the folder of a suite.
namespace noisemark::reports {

/// Writes both into `folder` (made when missing). Throws Error (cannot write).
void write_quality(const std::filesystem::path& folder, const QualityStudy& study);

/// Judges the runs of the suite in `folder` as the quality.json there was asked for (gates, ranges,
/// looks), else by the default options, and writes both files; empty where they hold no variant
/// beside its reference, and then no file is written and none stays. `looks`: declared with the
/// first one. Throws Error (bad input, also for another number than was declared; cannot write).
std::optional<QualityStudy> write_suite_quality(const std::filesystem::path& folder,
                                                std::optional<int64_t> looks = {});

/// Of a suite that begins anew: what was asked for and seen belongs to its earlier runs.
void remove_quality(const std::filesystem::path& folder);

/// What is wrong with a quality.md or quality.json in the folder of a suite: other bytes than its
/// results render to. Empty without them, and for what no suite wrote.
[[nodiscard]] std::vector<Finding> check_quality(const std::filesystem::path& folder);

}  // namespace noisemark::reports
