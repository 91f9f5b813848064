#pragma once

#include <string>
#include <vector>

#include "reports/error.h"

namespace noisemark::suite {

/// Runs one command line without the program's name (`argv` as typed goes into results). Throws
/// Error; writes what was asked for to stdout.
[[nodiscard]] ExitCode run_command_line(const std::vector<std::string>& words,
                                        const std::vector<std::string>& argv);

/// Whether NOISEMARK_REQUIRE=cuda is in the environment: then «cannot run here» is a failure,
/// because ctest calls a run of only skipped tests a success. To be asked before anything runs:
/// throws Error (exit code 2) when the variable holds anything else.
[[nodiscard]] bool requires_cuda();

}  // namespace noisemark::suite
