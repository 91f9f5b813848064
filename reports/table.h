#pragma once

#include <string>
#include <vector>

#include "reports/result.h"

/// Any results side by side, whatever they ran on. Descriptive: it never says which is better than
/// another, and it gates nothing.
namespace noisemark::reports {

struct NamedResult {
  std::string name;  ///< how the reader knows it: its folder
  Result result;
};

/// One row per result, in the order given. The ratio is of images/s to the first row that ran the
/// same benchmark at the same scale.
[[nodiscard]] std::string side_by_side(const std::vector<NamedResult>& results);

/// The same for result.json files, their folders, and folders of such folders. Throws Error (bad
/// input).
[[nodiscard]] std::string table_markdown(const std::vector<std::string>& paths);

/// report.md of several results of one command: verdict, side_by_side(), and what failed. Each name
/// is the path of the result's folder relative to the report; `missing` are those of runs that left
/// no result, which count as failed.
[[nodiscard]] std::string render_suite_report(const std::string& title,
                                              const std::vector<NamedResult>& results,
                                              const std::vector<std::string>& missing);

}  // namespace noisemark::reports
