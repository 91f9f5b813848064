#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reports/result.h"

/// The files that a run leaves behind.
namespace noisemark::reports {

/// Writes plots/, report.md and result.json into `folder` (made when missing). The result's bytes
/// are on the disk before anything is drawn, and come in place last: a result that is there has its
/// report. Throws Error (cannot write), and then no result is put in place.
void write_run_folder(const std::filesystem::path& folder, const Result& result);

/// result.json alone, where there is no room for its report; one of another result does not stay.
/// Throws Error (cannot write).
void write_result_alone(const std::filesystem::path& folder, const Result& result);

/// Several runs with a common report, as suite.json tells of them.
struct Suite {
  std::string title;
  std::vector<std::string> names;  ///< of the runs' folders, below the suite's
  /// By name, the SHA-256 of a result.json that lay there before: it is none of this suite.
  std::map<std::string, std::string> earlier;
  /// By name, why a run left no result without having failed: "cannot run here".
  std::map<std::string, std::string> not_run = {};
  /// "gmm16-ho-long@cpu": whose quality over seeds it judges. Empty: of whatever has several.
  std::set<std::string> judged = {};
};

/// Writes `folder`/suite.json. To be done before the runs, so that one that cannot begin is missed
/// and no earlier result is taken for its own. Throws Error (cannot write).
void write_suite(const std::filesystem::path& folder, const Suite& suite);

/// Empty without a suite.json. Throws Error (bad input) when that is none of ours.
[[nodiscard]] std::optional<Suite> read_suite(const std::filesystem::path& folder);

/// What became of a run of a suite.
struct SuiteRun {
  std::string name;
  std::string lost;      ///< why it has no result of its own; empty: it has one
  bool not_run = false;  ///< it was never run, so that a missing result is no failure
};

/// Every run of the suite in `folder`, in its order: the one rule of which results are a suite's.
/// A result of a run that was not run, or that lay there before, is none of it.
[[nodiscard]] std::vector<SuiteRun> suite_runs(const std::filesystem::path& folder,
                                               const Suite& suite);

/// Writes report.md by `folder`/suite.json: the results side by side. A run without a result of its
/// own is named, and counts as failed where it was run. Throws Error (bad input, cannot write).
void write_suite_report(const std::filesystem::path& folder);

/// Renders report.md and plots/ again from the result.json in `folder`, or those of every result
/// below it and then, where there is a suite.json, the report of the suite. Returns the reports
/// that it wrote, the suite's last. Throws Error (bad input, cannot write).
std::vector<std::filesystem::path> rewrite_report(const std::filesystem::path& folder);

}  // namespace noisemark::reports
