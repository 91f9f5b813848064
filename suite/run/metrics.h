#pragma once

#include <vector>

#include "reports/result.h"

namespace noisemark::suite {

/// Steps after the warm-up; empty when there are none.
[[nodiscard]] std::vector<double> steady(const std::vector<double>& samples, int64_t warmup_steps);

/// Images per second from the median of the steady steps, empty without any.
[[nodiscard]] std::optional<double> images_per_second(const reports::Result& result);

/// Every metric that a gate, a table or a comparison may name, from the sections of `result`
/// (samples, protocol, memory, utilization, quality). A metric that could not be had is listed with
/// its reason.
[[nodiscard]] std::vector<reports::Metric> derive_metrics(const reports::Result& result);

}  // namespace noisemark::suite
