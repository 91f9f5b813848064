#pragma once

#include <string>

#include "reports/error.h"
#include "suite/cli/arguments.h"

namespace noisemark::suite {

/// What a command says and leaves with.
struct Answer {
  std::string text;
  ExitCode code = ExitCode::kPass;
};

/// `noisemark compare`: the comparison in the format asked for, and the exit code of its verdict.
/// Throws Error (exit code 2) for bad input or an unknown word behind an option.
[[nodiscard]] Answer compare_results(const Arguments& arguments);

}  // namespace noisemark::suite
