#pragma once

#include <string>
#include <vector>

#include "suite/cli/arguments.h"
#include "suite/cli/compare_command.h"

namespace noisemark::suite {

/// `noisemark selftest`: the table of trials and kPass, or kFailed when one is not as expected.
/// Throws Error (exit code 2) for bad input, and what run_self_test() throws.
[[nodiscard]] Answer test_itself(const Arguments& arguments, const std::vector<std::string>& argv);

}  // namespace noisemark::suite
