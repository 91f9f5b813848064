#include "baselines/pooled_memory.h"

#include <malloc.h>

#include <limits>

namespace noisemark::baselines {

#ifdef __GLIBC__

bool keep_freed_memory() {
  constexpr int kNever = std::numeric_limits<int>::max();
  constexpr int kGrowBy = 64 << 20;
  // M_MMAP_MAX rather than M_MMAP_THRESHOLD: glibc refuses thresholds above 32 MiB.
  // Other arenas than the main one cannot hold blocks above 64 MiB.
  const bool unmapped = mallopt(M_MMAP_MAX, 0) == 1;
  const bool untrimmed = mallopt(M_TRIM_THRESHOLD, kNever) == 1;
  const bool padded = mallopt(M_TOP_PAD, kGrowBy) == 1;
  const bool single = mallopt(M_ARENA_MAX, 1) == 1;
  return unmapped && untrimmed && padded && single;
}

#else

bool keep_freed_memory() {
  return false;
}

#endif

}  // namespace noisemark::baselines
