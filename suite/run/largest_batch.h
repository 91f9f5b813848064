#pragma once

#include <cstdint>

#include "reports/result.h"
#include "suite/run/pass_watch.h"
#include "suite/run/session.h"

namespace noisemark::suite {

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
void require_countable_batch(const Variant& variant);

}  // namespace noisemark::suite
