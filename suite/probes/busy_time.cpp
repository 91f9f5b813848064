#include "suite/probes/busy_time.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace noisemark::suite {
namespace {

constexpr double kSecondsPerNanosecond = 1e-9;

}  // namespace

int64_t merged_ns(std::vector<BusySpan> spans) {
  std::sort(spans.begin(), spans.end(),
            [](const BusySpan& a, const BusySpan& b) { return a.begin_ns < b.begin_ns; });
  int64_t total_ns = 0;
  int64_t covered_until_ns = std::numeric_limits<int64_t>::min();
  for (const BusySpan& span : spans) {
    const int64_t begin_ns = std::max(span.begin_ns, covered_until_ns);
    if (span.end_ns <= begin_ns) continue;
    total_ns += span.end_ns - begin_ns;
    covered_until_ns = span.end_ns;
  }
  return total_ns;
}

BusyTime busy_time(const DeviceActivity& activity, int steps) {
  const auto seconds_per_step = [&](int64_t ns) {
    return static_cast<double>(ns) * kSecondsPerNanosecond / steps;
  };
  BusyTime result;
  result.kernel_s = seconds_per_step(merged_ns(activity.kernels));
  std::vector<BusySpan> all = activity.kernels;
  all.insert(all.end(), activity.copies.begin(), activity.copies.end());
  result.busy_s = seconds_per_step(merged_ns(std::move(all)));
  for (const BusySpan& span : activity.kernels) {
    result.summed_kernel_s += seconds_per_step(span.end_ns - span.begin_ns);
  }
  result.kernels = static_cast<double>(activity.kernels.size()) / steps;
  return result;
}

}  // namespace noisemark::suite
