#pragma once

#include "reports/base/error.h"
#include "suite/run/spec/options.h"

namespace noisemark::suite {

/// Keeps one training session ready and obeys lines on standard input, so that several builds or
/// frameworks can be timed in turns on one machine: «run K» makes K steps and answers {"step_s":
/// [...], "loss": [...]}; «quit» or the end of input ends it. The first line out is {"ready": true,
/// ...}: "identity" is what another build must agree in to do the same work, "about" may differ.
[[nodiscard]] ExitCode pace(const RunOptions& options);

}  // namespace noisemark::suite
