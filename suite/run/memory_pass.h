#pragma once

#include <string>

#include "reports/result.h"
#include "suite/run/pass_watch.h"
#include "suite/run/session.h"

namespace noisemark::suite {

/// Trains `measure.memory_steps` steps in a session of its own and tells who owns every byte during
/// the last one. Times of this pass mean nothing: watching costs time. What the mode planned and
/// did in these steps goes to `mode`, where one is given, and the allocations of the last step,
/// also of one that found no room, to the file `snapshot` (snapshot_file.h), unless that is empty.
/// Throws Interrupted and NonFinite.
[[nodiscard]] reports::MemorySection memory_pass(const SessionOptions& options,
                                                 const PassWatch& watch,
                                                 reports::MemoryMode* mode = nullptr,
                                                 const std::string& snapshot = "");

}  // namespace noisemark::suite
