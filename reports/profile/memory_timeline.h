#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reports/profile/profile.h"
#include "reports/profile/recording.h"
#include "reports/profile/trace_file.h"
#include "reports/result/result.h"

namespace noisemark::reports {

/// The memory by owner over one step, with what the step was doing at each instant.
struct MemoryTimeline {
  std::vector<std::string> owners;
  std::vector<MemoryPoint> points;  ///< bytes in the order of `owners`; times rise
  std::vector<ProfiledMoment> moments;
};

/// Instants of the last recorded step, at most `most` (at least 2): of those that a plot draws at
/// one place, and of neighbours where there are too many, the highest stays. Empty without
/// counters. A pure function.
[[nodiscard]] MemoryTimeline memory_timeline(const Recording& recording,
                                             const std::vector<MemoryCounter>& counters,
                                             size_t most = 3000);

/// The part of a result's section that the plot of memory by owner is drawn from.
[[nodiscard]] MemorySection section_of(const MemoryTimeline& timeline);

/// memory_timeline.json, for pages and programs.
[[nodiscard]] std::string memory_timeline_json(const MemoryTimeline& timeline);

}  // namespace noisemark::reports
