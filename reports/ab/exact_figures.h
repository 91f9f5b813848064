#pragma once

#include <vector>

#include "reports/compare/comparison.h"
#include "reports/result.h"

namespace noisemark::reports {

/// Figures without noise of runs of two builds, judged as `compare` does (exact_tier.h): bytes,
/// also by owner, FLOP per image, losses, and whether the runs passed their own gates. Parameters
/// are left out: the processes that take turns say them. The software may differ, for it may be
/// what is compared; where the work differs (same_work.h) there are no rows. Of several runs every
/// one of B is compared with every one of A, and only what all say alike is a difference between
/// builds: else the figure is inconclusive. Throws Error (bad input) when a run is on both sides.
[[nodiscard]] std::vector<ExactRow> compare_exact_figures(const std::vector<Result>& a,
                                                          const std::vector<Result>& b);

}  // namespace noisemark::reports
