#pragma once

#include "suite/cli/arguments.h"
#include "suite/cli/compare_command.h"
#include "suite/run/run.h"

namespace noisemark::suite {

/// `noisemark plan`: `options` as for a run, without a mode. Throws Error, exit code 2, for a
/// budget that is no size or cannot be met; the message then names the smallest that can.
[[nodiscard]] Answer plan_memory(const Arguments& arguments, RunOptions options);

}  // namespace noisemark::suite
