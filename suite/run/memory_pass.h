#pragma once

#include "reports/result.h"
#include "suite/run/session.h"

namespace noisemark::suite {

/// Trains `measure.memory_steps` steps in a session of its own and tells who owns every byte during
/// the last one. Times of this pass mean nothing: watching costs time.
[[nodiscard]] reports::MemorySection memory_pass(const SessionOptions& options);

}  // namespace noisemark::suite
