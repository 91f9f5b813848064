#pragma once

#include "suite/cli/arguments.h"
#include "suite/cli/compare_command.h"

namespace noisemark::suite {

/// `noisemark ab`: two builds in turns, or a recorded comparison judged again (--from). Throws
/// Error for bad input, for a build that fails (pace_process.h), and when an interrupt left too
/// little to judge.
[[nodiscard]] Answer compare_builds(const Arguments& arguments);

/// `noisemark calibrate`: this program beside itself, unit by unit; goes on with what --out holds.
/// With --from the units are comparisons that were recorded earlier.
/// Exit code 5 when what it found allows no gate.
[[nodiscard]] Answer calibrate(const Arguments& arguments);

}  // namespace noisemark::suite
