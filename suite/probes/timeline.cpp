#include "suite/probes/timeline.h"

#include <algorithm>
#include <numeric>

namespace noisemark::suite {
namespace {

int64_t total(const reports::MemoryPoint& point) {
  return std::accumulate(point.by_category.begin(), point.by_category.end(), int64_t{0});
}

}  // namespace

std::vector<reports::MemoryPoint> thin_timeline(const std::vector<reports::MemoryPoint>& points,
                                                size_t limit) {
  if (points.size() <= limit) return points;
  const size_t spans = (limit - 2) / 2;
  const double begin_s = points.front().time_s;
  const double span_s = (points.back().time_s - begin_s) / static_cast<double>(spans);
  std::vector<reports::MemoryPoint> kept = {points.front()};
  size_t next = 1;
  const size_t last = points.size() - 1;
  for (size_t span = 0; span < spans && next < last; ++span) {
    const size_t first = next;
    const double end_s = begin_s + span_s * static_cast<double>(span + 1);
    // The final span takes what rounding left over.
    while (next < last && (points[next].time_s < end_s || span + 1 == spans)) ++next;
    if (next == first) continue;
    const auto highest =
        std::max_element(points.begin() + first, points.begin() + next,
                         [](const auto& a, const auto& b) { return total(a) < total(b); });
    kept.push_back(*highest);
    if (&*highest != &points[next - 1]) kept.push_back(points[next - 1]);
  }
  kept.push_back(points.back());
  return kept;
}

}  // namespace noisemark::suite
