#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace noisemark::reports {

/// Opens a file to read its bytes. Throws Error (bad input), «PATH: cannot be read: ...», where it
/// is missing, or no regular file: a pipe may never be written to, and a device need not end.
[[nodiscard]] std::ifstream open_file(const std::filesystem::path& path,
                                      const std::string& accepted = "a file");

}  // namespace noisemark::reports
