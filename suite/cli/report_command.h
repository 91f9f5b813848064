#pragma once

#include "suite/cli/arguments.h"
#include "suite/cli/compare_command.h"

namespace noisemark::suite {

/// `noisemark report`: renders the files of a folder again, or with --format says what is in the
/// results in that format. Throws Error (bad input, cannot write).
[[nodiscard]] Answer report_results(const Arguments& arguments);

}  // namespace noisemark::suite
