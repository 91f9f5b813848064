#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reports/render/run_folder.h"

/// Suites that several machines ran, each a part of it (`noisemark run SUITE --shard K/N`). Folders
/// of parts are taken together where they lie side by side in one folder, or are named together.
namespace noisemark::reports {

/// Throws Error where not every part of a suite that has one at `paths`, or right below one of
/// them, is there: exit code 3 for a part that is missing, or is of another program or number of
/// parts; exit code 2 for a part that is there twice.
void require_whole_suites(const std::vector<std::string>& paths);

/// The suite whose parts lie right below `folder`, with the folders' names before those of its
/// runs; empty where there is none, or more than one suite. Throws Error as above.
[[nodiscard]] std::optional<Suite> joined_suite(const std::filesystem::path& folder);

/// The suite in `folder`, whole or joined. Throws Error as read_suite() does, and as above.
[[nodiscard]] std::optional<Suite> suite_in(const std::filesystem::path& folder);

}  // namespace noisemark::reports
