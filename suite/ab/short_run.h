#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/result.h"

namespace noisemark::suite {

/// One run of a build for its figures without noise: `BINARY run WORDS` with four steps, under the
/// deterministic profile, so that its losses repeat. `words` are the benchmark and the options of
/// the turns; `name` begins every error. Empty when an interrupt ended it. Throws Error: there is
/// no such program, it ended without a result (with its exit code where that is one of Noisemark's,
/// and the last line that it said), or its result cannot be read.
[[nodiscard]] std::optional<reports::Result> short_run(const std::string& name,
                                                       const std::string& binary,
                                                       const std::vector<std::string>& words);

}  // namespace noisemark::suite
