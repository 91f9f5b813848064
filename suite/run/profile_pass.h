#pragma once

#include "reports/result.h"
#include "suite/run/pass_watch.h"
#include "suite/run/session.h"

namespace noisemark::suite {

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
