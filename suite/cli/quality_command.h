#pragma once

#include "reports/quality/judge.h"
#include "suite/cli/arguments.h"
#include "suite/cli/compare_command.h"

namespace noisemark::suite {

/// What --gate and --range ask for. Throws Error (exit code 2) for words that say nothing.
[[nodiscard]] reports::QualityOptions quality_options(const Arguments& arguments);

/// `noisemark quality`: does any mode cost quality, over seeds, and the exit code of the verdict.
/// Throws Error (bad input, cannot write).
[[nodiscard]] Answer judge_seeds(const Arguments& arguments);

}  // namespace noisemark::suite
