#include "reports/profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "reports/base/document.h"
#include "reports/base/json_writer.h"

namespace noisemark::reports {
namespace {

int64_t total(const MemoryCounter& counter) {
  return std::accumulate(counter.bytes.begin(), counter.bytes.end(), int64_t{0},
                         [](int64_t sum, const auto& owner) { return sum + owner.second; });
}

const ProfiledEvent* last_step(const Recording& recording) {
  const ProfiledEvent* last = nullptr;
  for (const ProfiledEvent& event : recording.events) {
    if (event.is_step() && (last == nullptr || event.start_ns > last->start_ns)) last = &event;
  }
  return last;
}

/// The place of an instant on the axis of a plot, which has six digits (reports/render/plot.cpp).
std::string place_of(const MemoryCounter& counter, const ProfiledEvent& step) {
  return fmt::format("{:.6g}", static_cast<double>(counter.time_ns - step.start_ns) / 1e6);
}

using Counters = std::vector<const MemoryCounter*>;

/// The highest of each run of neighbours that belong together.
template <class Together>
Counters highest_of(const Counters& all, const Together& together) {
  Counters kept;
  size_t begin = 0;  // the run begins there
  for (size_t i = 0; i < all.size(); ++i) {
    const bool same = i > 0 && together(begin, i);
    if (!same) {
      begin = i;
      kept.push_back(all[i]);
    } else if (total(*all[i]) > total(*kept.back())) {
      kept.back() = all[i];
    }
  }
  return kept;
}

Counters instants_of(const ProfiledEvent& step, const std::vector<MemoryCounter>& counters,
                     size_t most) {
  Counters all;
  for (const MemoryCounter& counter : counters) {
    if (counter.time_ns >= step.start_ns && counter.time_ns <= step.end_ns) {
      all.push_back(&counter);
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto* a, const auto* b) { return a->time_ns < b->time_ns; });
  all = highest_of(
      all, [&](size_t a, size_t b) { return place_of(*all[a], step) == place_of(*all[b], step); });
  const size_t width = (all.size() + most - 1) / most;
  return width <= 1 ? all
                    : highest_of(all, [&](size_t a, size_t b) { return a / width == b / width; });
}

}  // namespace

MemoryTimeline memory_timeline(const Recording& recording,
                               const std::vector<MemoryCounter>& counters, size_t most) {
  MemoryTimeline timeline;
  const ProfiledEvent* step = last_step(recording);
  if (step == nullptr || counters.empty()) return timeline;
  for (const auto& [owner, bytes] : counters.front().bytes) timeline.owners.push_back(owner);
  const Counters instants = instants_of(*step, counters, most);
  std::vector<int64_t> times_ns;
  for (const MemoryCounter* counter : instants) times_ns.push_back(counter->time_ns);
  const std::vector<ProfiledMoment> moments = moments_of(recording, times_ns);
  for (size_t i = 0; i < instants.size(); ++i) {
    MemoryPoint memory{static_cast<double>(times_ns[i] - step->start_ns) / kNsPerS, {}};
    for (const auto& [owner, bytes] : instants[i]->bytes) memory.by_category.push_back(bytes);
    timeline.points.push_back({std::move(memory), moments[i]});
  }
  return timeline;
}

MemorySection section_of(const MemoryTimeline& timeline) {
  MemorySection section;
  section.categories = timeline.owners;
  section.timeline.assign(timeline.points.begin(), timeline.points.end());
  for (const MemoryPoint& point : timeline.points) {
    section.peak_bytes =
        std::max(section.peak_bytes,
                 std::accumulate(point.by_category.begin(), point.by_category.end(), int64_t{0}));
  }
  return section;
}

std::string memory_timeline_json(const MemoryTimeline& timeline) {
  return json::Printer("memory timeline")
      .file(beginning_of(json::kMemoryTimelineDocument), timeline);
}

}  // namespace noisemark::reports
