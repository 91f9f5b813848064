#pragma once

#include <vector>

#include "reports/quality/quality.h"
#include "reports/quality/variants.h"

namespace noisemark::reports {

/// Tiers 0 and 1: what is known about every step of a mode, before any statistics. Nothing for a
/// variant whose mode says neither (its runs never came to their passes), and for mode "none".
///
/// Tier 0, of a lossless mode: bits.
///   FAIL          a run's certificate failed; or both runs of a seed were deterministic, and
///                 weights or their averages differ;
///   PASS          every seed has the bits of its reference, or a certificate that passed;
///   INCONCLUSIVE  a certificate was to be made and is unavailable;
///   else not judged, and words say why.
/// Tier 1, of a lossy mode: the largest relative error of one step's gradient over the seeds that
/// measured it is at most the definition's bound. Not judged where none did.
[[nodiscard]] std::vector<StepRow> step_rows(const Pairing& pairing);

}  // namespace noisemark::reports
