#pragma once

#include <string>
#include <vector>

#include "reports/error.h"

namespace noisemark::suite {

/// Runs one command line without the program's name (`argv` as typed goes into results). Throws
/// Error; writes what was asked for to stdout.
[[nodiscard]] ExitCode run_command_line(const std::vector<std::string>& words,
                                        const std::vector<std::string>& argv);

}  // namespace noisemark::suite
