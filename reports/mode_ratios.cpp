#include "reports/mode_ratios.h"

#include "reports/statistics.h"

namespace noisemark::reports {

std::optional<double> times_fewer(const std::optional<int64_t>& plain, int64_t under_mode) {
  if (!plain || under_mode <= 0) return std::nullopt;
  return static_cast<double>(*plain) / static_cast<double>(under_mode);
}

std::optional<double> most_times_fewer(const MemoryMode& mode) {
  return times_fewer(mode.plain.saved_bytes, mode.irreplaceable_bytes.value_or(0));
}

std::optional<double> predicted_overhead_frac(const MemoryMode& mode) {
  const std::vector<double>& steps_s = mode.overhead.reference_step_s;
  if (!mode.predicted_added_s || steps_s.empty()) return std::nullopt;
  const double step_s = median(steps_s);
  if (!(step_s > 0)) return std::nullopt;
  return *mode.predicted_added_s / step_s;
}

}  // namespace noisemark::reports
