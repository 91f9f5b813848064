#pragma once

#include <string>
#include <vector>

#include "reports/compare/comparison.h"
#include "reports/compare/sides.h"

namespace noisemark::reports {

/// Figures without noise, one row each over all pairs of a cell, with margin 0: allocated bytes,
/// bytes by owner at the peak and at every phase boundary, leaked bytes, parameters, FLOP per
/// image, and under the deterministic profile the digest of the loss trace. Bytes may fall; the
/// rest must be equal. Bytes of one owner may differ where the peak fell, or all bytes at that
/// moment without more of them being without an owner: then they moved. The worst pair decides.
/// Only noise that BASE has too excuses: where its runs of one seed differ, NEW is worse when all
/// of its runs of that seed lie above all of BASE's, and else inconclusive. Figures in different
/// units are not comparable, and one that both sides should have and neither has needs a baseline.
/// The row `absolute gates` says whether the runs passed their own.
[[nodiscard]] std::vector<ExactRow> compare_exact(const Cell& cell);

/// Names those of exact_metrics() (metrics.h) that no run of the cell could have, because their
/// pass was left out on both sides or a peer cannot tell them: a sentence per reason.
[[nodiscard]] std::vector<std::string> left_out_figures(const Cell& cell);

}  // namespace noisemark::reports
