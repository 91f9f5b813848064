#pragma once

#include "suite/cli/arguments.h"
#include "suite/cli/compare_command.h"

namespace noisemark::suite {

/// `noisemark history`: results over time, and where they changed. Throws Error (bad input, cannot
/// write).
[[nodiscard]] Answer show_history(const Arguments& arguments);

}  // namespace noisemark::suite
