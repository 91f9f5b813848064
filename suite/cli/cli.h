#pragma once

#include <string>
#include <vector>

#include "reports/error.h"

namespace noisemark::suite {

/// Runs one command line without the program's name (`argv` as typed goes into results). Throws
/// Error; writes what was asked for to stdout.
[[nodiscard]] ExitCode run_command_line(const std::vector<std::string>& words,
                                        const std::vector<std::string>& argv);

/// The code to leave with: with NOISEMARK_REQUIRE=cuda in the environment «cannot run here» is a
/// failure, because ctest calls a run of only skipped tests a success. Throws Error (exit code 2)
/// when the variable holds anything else.
[[nodiscard]] ExitCode required(ExitCode code);

}  // namespace noisemark::suite
