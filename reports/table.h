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

/// Whether a table ends with the verdict that each run came to.
enum class Verdicts { kLeftOut, kShown };

/// One row per result, in the order given. The ratio is of images/s to the first row that ran the
/// same benchmark at the same scale.
[[nodiscard]] std::string side_by_side(const std::vector<NamedResult>& results, Verdicts verdicts);

/// The same, without verdicts, for result.json files, their folders, and folders of such folders,
/// with the tables of memory modes and of convolutions' scratch memory where there are any.
/// Throws Error (bad input).
[[nodiscard]] std::string table_markdown(const std::vector<std::string>& paths);

/// A run of a suite that left no result.
struct MissingRun {
  std::string name;
  std::string not_run;  ///< why that is no failure: "cannot run here"; empty: it failed
};

/// report.md of several results of one command: verdict, side_by_side(), what failed, and for
/// several seeds of several variants where their quality is judged. Each name
/// is the path of the result's folder relative to the report.
///
/// The headline is the worst of the runs: FAIL; INCOMPLETE where one could not run here or did not
/// come to its end; CUSTOM where the gates of a definition did not apply; PASS when every run
/// passed.
[[nodiscard]] std::string render_suite_report(const std::string& title,
                                              const std::vector<NamedResult>& results,
                                              const std::vector<MissingRun>& missing);

/// The same without the links to the runs' reports, for a reader who has not got them.
[[nodiscard]] std::string suite_summary(const std::string& title,
                                        const std::vector<NamedResult>& results,
                                        const std::vector<MissingRun>& missing);

}  // namespace noisemark::reports
