#pragma once

#include <cstdint>

#include "suite/probes/device_window.h"
#include "suite/run/pass_watch.h"
#include "suite/run/session.h"

namespace noisemark::suite {

/// In which a GPU is read: its counters are means over all of it.
inline constexpr double kDeviceWindow_s = 5;

/// In each of which counters are sampled, after that window.
inline constexpr double kSampledWindow_s = 2;

/// How many steps of `step_s` fill the window, and never fewer than 3.
[[nodiscard]] int64_t steps_of_window(double step_s, double window_s = kDeviceWindow_s);

/// What was read of a GPU while it trained, and of how many steps.
struct DeviceReadings {
  DeviceWindow window;
  int64_t steps = 0;
};

/// What the GPU of `options` does while training goes on: trains in a session of its own and reads
/// the GPU beside it; then samples its counters in windows of their own, which are no longer than
/// `window_s`. To be called before this process profiles: LibTorch's profiler leaves CUPTI attached
/// to every launch that follows. Throws Interrupted and NonFinite.
[[nodiscard]] DeviceReadings device_pass(const SessionOptions& options, const PassWatch& watch,
                                         double window_s = kDeviceWindow_s);

}  // namespace noisemark::suite
