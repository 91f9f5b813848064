#pragma once

#include <cstdint>
#include <optional>

#include "reports/result.h"
#include "suite/probes/busy_time.h"
#include "suite/run/pass_watch.h"
#include "suite/run/session.h"

namespace noisemark::suite {

/// In which a GPU is read: its counters are means over all of it.
inline constexpr double kDeviceWindow_s = 5;

/// In each of which counters are sampled, after that window.
inline constexpr double kSampledWindow_s = 2;

/// How many steps of `step_s` fill the window, and never fewer than 3.
[[nodiscard]] int64_t steps_of_window(double step_s, double window_s = kDeviceWindow_s);

/// What the GPU of `options` does while training goes on: trains in a session of its own, without a
/// profiler, and reads the GPU beside it; then samples its counters in windows of their own, which
/// are no longer than `window_s`. `counted` has the operations and the peak, `busy` what
/// a profile of the same steps found, or nothing. Throws Interrupted and NonFinite.
[[nodiscard]] reports::DeviceUse device_pass(const SessionOptions& options, const PassWatch& watch,
                                             const reports::Utilization& counted,
                                             const std::optional<BusyTime>& busy,
                                             double window_s = kDeviceWindow_s);

}  // namespace noisemark::suite
