#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reports/result.h"

/// The files that a run leaves behind.
namespace noisemark::reports {

/// Writes result.json, plots/ and report.md into `folder` (made when missing), in this order: the
/// truth is on the disk before anything is drawn. Throws Error (cannot write).
void write_run_folder(const std::filesystem::path& folder, const Result& result);

/// Writes `folder`/suite.json (title and the folders) and report.md, which shows the results side
/// by side. `folders` lie below `folder`; one without a result.json, of a run that could not start,
/// is named and counts as failed. Throws Error (cannot write).
void write_suite_report(const std::string& title, const std::filesystem::path& folder,
                        const std::vector<std::filesystem::path>& folders);

/// Renders report.md and plots/ again from the result.json in `folder`, or those of every result
/// below it and then, where there is a suite.json, the report of the suite. Throws Error (bad
/// input, cannot write).
void rewrite_report(const std::filesystem::path& folder);

}  // namespace noisemark::reports
