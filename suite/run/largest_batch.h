#pragma once

#include <cstdint>
#include <string>

#include "suite/run/pass_watch.h"
#include "suite/run/session.h"

namespace noisemark::suite {

/// The largest batch of one mode that stays within a given memory.
struct LargestBatch {
  int64_t batch = 0;       ///< 0: not even the smallest fits
  int64_t peak_bytes = 0;  ///< of all owners in a steady step of that batch; of the smallest where
                           ///< none fits
  int64_t next_peak_bytes = 0;  ///< of the next larger batch, which does not fit; 0: as many as the
                                ///< data have, all fit; the largest number: it has none
  std::string why_no_peak;      ///< of the next larger batch, or of the smallest where none fits:
                                ///< "out of memory", "below the smallest budget"
};

/// Measures steady steps of growing batches, first doubling and then between the last that fits and
/// the first that does not, so both ends of the answer were measured and nothing is extrapolated.
/// Batches are multiples of the definition's accumulation. A failed allocation counts as not
/// fitting, and so does a batch for which a budget mode's budget cannot be met. Throws Interrupted.
[[nodiscard]] LargestBatch largest_batch(const SessionOptions& options, int64_t memory_bytes,
                                         const PassWatch& watch);

}  // namespace noisemark::suite
