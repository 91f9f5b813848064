#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace noisemark::suite {

/// Builds `noisemark` as it was at a revision of the repository around `from`, in a worktree of its
/// own at build/ab/COMMIT there, and returns the program's path. A commit that was built before
/// with the same words is not built again; a worktree that was deleted is made again. `configure`
/// are further words for cmake. What git and cmake say goes to
/// build/ab/COMMIT.log. Throws Error (bad input): no repository, no such revision, or it does not
/// build, with the log's path.
[[nodiscard]] std::filesystem::path build_revision(const std::string& revision,
                                                   const std::filesystem::path& from,
                                                   const std::vector<std::string>& configure);

}  // namespace noisemark::suite
