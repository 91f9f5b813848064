#pragma once

#include "suite/cli/arguments.h"
#include "suite/cli/compare_command.h"

namespace noisemark::suite {

/// `noisemark baseline promote PATH...` and `baseline show PATH`. Throws Error (bad input, baseline
/// needed, cannot write).
[[nodiscard]] Answer keep_baseline(const Arguments& arguments);

}  // namespace noisemark::suite
