#pragma once

#include <cstdint>
#include <optional>

#include "reports/result.h"

/// What a memory mode saves and costs, as shares of what "none" needs.
namespace noisemark::reports {

/// `plain` / `under_mode`; empty where either is not known.
[[nodiscard]] std::optional<double> times_fewer(const std::optional<int64_t>& plain,
                                                int64_t under_mode);

/// How many times fewer bytes than "none" the mode could save by making values again alone: what
/// its factor of saved bytes is to be seen beside. Empty where the bound is not known.
[[nodiscard]] std::optional<double> most_times_fewer(const MemoryMode& mode);

/// The time that the plan was expected to add to a step, as a share of the median step of "none" in
/// the certificate pass; empty where there is no plan, or no such step was timed. Beside
/// Overhead::frac.
[[nodiscard]] std::optional<double> predicted_overhead_frac(const MemoryMode& mode);

}  // namespace noisemark::reports
