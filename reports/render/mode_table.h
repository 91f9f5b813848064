#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/render/table.h"
#include "reports/result/metrics.h"
#include "reports/result/result.h"

namespace noisemark::reports {

/// Memory modes side by side, one row for each result that ran under one, and the rows of mode
/// "none" of the same benchmarks, in three tables that fit a page: peak and saved bytes, the most
/// that is saved, time and proof; and a fourth where runs looked for the largest batch that fits a
/// given memory. Each figure that a plan predicts stands beside what was measured.
/// Markdown, empty where no result ran under a mode.
[[nodiscard]] std::string mode_table(const std::vector<NamedResult>& results);

/// Returns how many times fewer bytes than "none" the mode could save at the most by making values
/// again alone. Empty where that bound is not known.
[[nodiscard]] std::optional<double> most_times_fewer(const MemoryMode& mode);

/// The time that the plan was expected to add to a step, as a share of the median step of "none" in
/// the certificate pass; empty where there is no plan, or no such step was timed. Beside
/// Overhead::frac.
[[nodiscard]] std::optional<double> predicted_overhead_frac(const MemoryMode& mode);

}  // namespace noisemark::reports
