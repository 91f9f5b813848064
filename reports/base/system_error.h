#pragma once

#include <filesystem>
#include <system_error>

#include "reports/base/error.h"

namespace noisemark::reports {

/// The one translation of what the operating system refused (std::filesystem::filesystem_error,
/// std::ios_base::failure, std::thread's std::system_error) into an error that a user can act on,
/// with the path and the system's own words:
///
/// | exit code | cause |
/// |---|---|
/// | 71 | no more memory, threads, processes or open files can be had |
/// | 74 | a path cannot be written, there is no room, or a device fails |
/// | 2 | a path cannot be read or looked at |
/// | 70 | anything that has no path: then it is the program's own mistake |
[[nodiscard]] Error error_of(const std::system_error& error);

/// The same of a file that `cause` (of errno) keeps from being written.
[[nodiscard]] Error not_written(const std::filesystem::path& path, int cause);

}  // namespace noisemark::reports
