#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "reports/result.h"
#include "suite/environment/energy.h"

namespace noisemark::suite {

/// Steps after the warm-up; empty when there are none.
[[nodiscard]] std::vector<double> steady(const std::vector<double>& samples, int64_t warmup_steps);

/// Images per second from the median of the steady steps, empty without any.
[[nodiscard]] std::optional<double> images_per_second(const reports::Result& result);

/// Every metric that a gate, a table or a comparison may name, from the sections of `result`
/// (samples, protocol, memory, utilization, quality). A metric that could not be had is listed with
/// its reason. `skipped_steps` are those that loss scaling left out; empty: there is none, and no
/// such metric.
[[nodiscard]] std::vector<reports::Metric> derive_metrics(
    const reports::Result& result, std::optional<int64_t> skipped_steps = std::nullopt);

/// "energy_j", of what was used from the first step of the training to its end, evaluations and
/// whatever else ran on the processor or GPU included.
[[nodiscard]] reports::Metric energy_metric(const EnergyUsed& used);

}  // namespace noisemark::suite
