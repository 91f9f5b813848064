#pragma once

#include <set>
#include <string>
#include <vector>

#include "reports/compare/comparison.h"
#include "reports/compare/sides.h"

namespace noisemark::reports {

/// The metrics without noise, by name.
[[nodiscard]] const std::set<std::string>& exact_metrics();

/// Figures without noise, one row each over all pairs of a cell, with margin 0: allocated bytes,
/// bytes by owner at the peak and at every phase boundary, leaked bytes, parameters, FLOP per
/// image, and under the deterministic profile the digest of the loss trace. Bytes may fall; the
/// rest must be equal. Bytes of one owner may also rise where the peak fell, for then they moved.
/// A figure that differs between runs of one side has noise after all and is inconclusive.
/// The row `absolute gates` says whether the runs passed their own.
[[nodiscard]] std::vector<ExactRow> compare_exact(const Cell& cell);

}  // namespace noisemark::reports
