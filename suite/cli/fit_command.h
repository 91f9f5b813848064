#pragma once

#include <cstdint>
#include <string>

#include "suite/cli/arguments.h"
#include "suite/cli/compare_command.h"
#include "suite/run/run.h"

namespace noisemark::suite {

/// `noisemark fit`: `options` as for a run of one benchmark. A table of modes with the largest
/// batch that each trains within --memory. Exit code 1 when there is a mode that does not even
/// train the smallest.
[[nodiscard]] Answer fit_batches(const Arguments& arguments, const RunOptions& options);

/// The bytes that follow --FLAG. Throws Error, exit code 2, where that is no size.
[[nodiscard]] int64_t size_of(const Arguments& arguments, const std::string& flag);

}  // namespace noisemark::suite
