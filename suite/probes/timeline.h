#pragma once

#include <cstddef>
#include <vector>

#include "reports/result.h"

namespace noisemark::suite {

/// At most `limit` (at least 4) of the points, in their order: the first and the last, and of equal
/// spans of time the highest and the last. So every peak of the curve that is highest within its
/// span stays, the highest of all among them.
[[nodiscard]] std::vector<reports::MemoryPoint> thin_timeline(
    const std::vector<reports::MemoryPoint>& points, size_t limit);

}  // namespace noisemark::suite
