#pragma once

#include "reports/result.h"
#include "suite/run/pass_watch.h"
#include "suite/run/session.h"

namespace noisemark::suite {

/// Trains `measure.memory_steps` steps in a session of its own and tells who owns every byte during
/// the last one. Times of this pass mean nothing: watching costs time. What the mode planned and
/// did in these steps goes to `mode`, where one is given. Throws Interrupted and NonFinite.
[[nodiscard]] reports::MemorySection memory_pass(const SessionOptions& options,
                                                 const PassWatch& watch,
                                                 reports::MemoryMode* mode = nullptr);

}  // namespace noisemark::suite
