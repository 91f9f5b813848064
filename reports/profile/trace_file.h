#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "reports/base/error.h"

namespace noisemark::reports {

/// Memory by owner at one instant.
struct MemoryCounter {
  int64_t time_ns = 0;  ///< time on the trace's clock, which begins in 1970
  std::vector<std::pair<std::string, int64_t>> bytes;
};

struct TraceSizes {
  int64_t plain_bytes = 0;
  int64_t packed_bytes = 0;
};

/// Copies kineto's trace `from` to `to`, packed by gzip, with the counters beside its events of
/// process `pid`, in one pass. Throws Error: bad input where `from` is no such trace; cannot write.
TraceSizes pack_trace(const std::filesystem::path& from, const std::filesystem::path& to,
                      const std::vector<MemoryCounter>& counters, int64_t pid);

/// Returns the error of a trace that a library left unwritten without saying why: the system says
/// it of another file there.
[[nodiscard]] Error unwritten_trace(const std::filesystem::path& path);

}  // namespace noisemark::reports
