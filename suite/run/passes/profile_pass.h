#pragma once

#include <cstdint>

#include "reports/result/result.h"
#include "suite/probes/device_window.h"
#include "suite/run/passes/session.h"
#include "suite/run/passes/watch.h"

namespace noisemark::suite {

/// The window in which a GPU is read: its counters are means over all of it.
inline constexpr double kDeviceWindow_s = 5;

/// Each window in which counters are sampled, after that one.
inline constexpr double kSampledWindow_s = 2;

/// Counts the steps of `step_s` that fill the window, and never fewer than 3.
[[nodiscard]] int64_t steps_of_window(double step_s, double window_s = kDeviceWindow_s);

/// The readings of a GPU while it trained, and the number of steps.
struct DeviceReadings {
  DeviceWindow window;
  int64_t steps = 0;
};

/// Reads what the GPU of `options` does while training goes on: trains in a session of its own and
/// reads the GPU beside it; then samples its counters in windows of their own, which are no longer
/// than `window_s`. Call it before this process profiles: LibTorch's profiler leaves CUPTI attached
/// to every launch that follows. Throws Interrupted and NonFinite.
[[nodiscard]] DeviceReadings device_pass(const SessionOptions& options, const PassWatch& watch,
                                         double window_s = kDeviceWindow_s);

/// Reads a GPU while it trains (device_pass()); then trains `measure.profile_steps` steps in a
/// session of its own: counts floating-point operations, times operators, and measures the
/// matrix-product peak of this device at this precision. What this process times afterwards on a
/// GPU is slower than it should be: the profiler stays attached. Fills everything of Utilization
/// but achieved_flop_per_s and mfu_frac, which need the training pass's times. `mixed`, which may
/// be null, is told what autocast let stay in float32. Throws Interrupted and NonFinite.
[[nodiscard]] reports::Utilization profile_pass(const SessionOptions& options,
                                                const PassWatch& watch,
                                                reports::MixedPrecision* mixed = nullptr);

/// achieved_flop_per_s and mfu_frac from the median step.
void add_achieved(reports::Utilization& utilization, double images_per_s);

}  // namespace noisemark::suite
