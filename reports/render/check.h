#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "reports/base/error.h"
#include "reports/result/result.h"

/// These functions say whether a result can be believed: whole, unchanged and consistent with
/// itself. Every rule is a typed predicate over values; no text of a file is ever evaluated.
namespace noisemark::reports {

struct Finding {
  std::string file;   ///< file as the user would find it
  std::string rule;   ///< "schema", "checksum", "closure" ...
  std::string words;  ///< one sentence on the fault
  /// The exit code of a command that goes on without what the finding is about.
  ExitCode code = ExitCode::kBadInput;
};

inline constexpr const char* kLost = "lost";  ///< a run without a result

/// Everything wrong with a result.json, or with a folder that holds one (its artifacts, events.mlog
/// and report.md too), or with every such folder below it (a suite). A folder or a file that cannot
/// be read is a finding like any other, and so is a file that a page refers to and that is missing.
/// It is empty where nothing is wrong. Throws Error (bad input) when there is no result at all, or
/// `path` is another kind of file.
[[nodiscard]] std::vector<Finding> check(const std::filesystem::path& path);

/// The weights that the same results list and that are not there. They are the one artifact that
/// may be left out when a result is published: check() does not ask for them, and cannot compare
/// them.
[[nodiscard]] std::vector<std::filesystem::path> absent_weights(const std::filesystem::path& path);

/// The rules that need nothing but the values: definition, seeds, samples, metrics, memory,
/// utilization, quality, gates, exit, provenance. `file` is copied into the findings.
[[nodiscard]] std::vector<Finding> check_values(const Result& result, const std::string& file);

/// Returns `path` itself or the folders below it that hold a result.json, sorted by name. A folder
/// that cannot be read goes to `lost`, as does a run that was begun or that a suite names and that
/// left no result, also where another run's result lies in its place; without `lost` an unreadable
/// folder is thrown as Error (bad input), because nobody knows what it holds, and the others are
/// passed over. Throws Error too when there is no result and nothing lost.
[[nodiscard]] std::vector<std::filesystem::path> result_folders(
    const std::filesystem::path& path, std::vector<Finding>* lost = nullptr);

/// Does `action`. What it cannot read or write goes to `lost` as a fault of `path` under the rule
/// "unreadable" or "unwritable", so that what stands beside it is still seen; without `lost` the
/// error is thrown on.
void or_lost(const std::filesystem::path& path, std::vector<Finding>* lost,
             const std::function<void()>& action);

}  // namespace noisemark::reports
