#pragma once

#include "suite/cli/arguments.h"
#include "suite/cli/compare_command.h"
#include "suite/run/run.h"

namespace noisemark::suite {

/// `noisemark sample`. Throws Error as sampling_pass() does, and exit code 130 when it is
/// interrupted.
[[nodiscard]] Answer sample_images(const Arguments& arguments, const RunOptions& options);

}  // namespace noisemark::suite
