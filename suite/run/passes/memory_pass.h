#pragma once

#include <cstdint>
#include <string>

#include "reports/result/result.h"
#include "suite/run/passes/session.h"
#include "suite/run/passes/watch.h"

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

/// The largest batch of one mode that stays within a given memory. Measures steady steps of growing
/// batches, first doubling and then between the last that fits and the first that does not, so both
/// ends of the answer were measured and nothing is extrapolated. Batches are multiples of the
/// definition's accumulation. A failed allocation counts as not fitting, and so does a batch for
/// which a budget mode's budget cannot be met. Throws Interrupted and NonFinite.
/// Its steps are issued by the host, so of a variant whose steps are recorded it would leave out
/// the recording's own memory: that is refused by require_countable_batch().
[[nodiscard]] reports::BatchFit largest_batch(const SessionOptions& options, int64_t memory_bytes,
                                              const PassWatch& watch);

/// Throws Error, exit code 2, for a variant whose largest batch would be told wrongly.
void require_countable_batch(const RunSpec& spec);

}  // namespace noisemark::suite
