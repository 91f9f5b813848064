#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/base/statistics.h"
#include "reports/compare/sides.h"
#include "reports/result/metrics.h"
#include "reports/seeds/study.h"
#include "reports/seeds/variants.h"

namespace noisemark::reports {

/// Beyond it a ratio is no longer called preserved.
inline constexpr double kWidestQualityMargin = 0.10;
/// More leave none of them enough of alpha to prove anything.
inline constexpr int64_t kMostLooks = 10;

struct QualityOptions {
  std::vector<QualityGate> gates = {{std::string(kLossMetric), {}}};
  std::vector<QualityRange> ranges = {};
  double alpha = kAlpha;  ///< chance of any wrong PASS in any look, and of any wrong FAIL
  double power = kPower;  ///< power at the smallest detectable difference
  int64_t resamples = kResamples;
  uint64_t seed = 0;
  int64_t looks = kDefaultLooks;     ///< most looks, as they were declared (Looks)
  std::vector<RunIds> earlier = {};  ///< those that were taken
};

/// Tiers 2 and 3, and what is known of tiers 0 and 1 (gates.h). Judges every variant of `side`
/// against its reference (variants.h) over the seeds that both have. Identity first: what is not
/// the same work on the same machine is not comparable. Then, per gate, with d the difference
/// (log-ratio, or plain where a measure may be zero), and its interval of confidence 1 - 2 alpha of
/// the gates of this look (Looks) from a t test, paired or Welch's by the measured correlation
/// (difference_test.h):
///   PASS          the interval within ±margin and both one-sided tests significant after Holm over
///                 all gates of all variants; or the interval beyond the margin on the better side,
///                 likewise; or equal in every seed, where the weights are bit for bit;
///   FAIL          the interval beyond the margin on the worse side, likewise; or training left the
///                 finite numbers where the reference did not;
///   INCONCLUSIVE  else: the interval reaches across a margin, a run lacks the figure, the seeds
///                 can never decide, or no look is left. Words say which, and the row how many
///                 seeds would.
/// Rows that judge nothing are in the study too: the training-weighted loss, time and samples to
/// quality, every timestep. A figure of a run that did not come to its end counts as missing, and
/// so does any run that was planned and left no result: survivors alone prove nothing.
///
/// A distance is judged like any other metric. Where those of one metric do not come from the same
/// extractor, N, sampler and reference, or one seed drew from other noise under another mode, the
/// study is not comparable.
///
/// A pure function of the results, in any order. Throws Error (bad input): nothing to judge, two
/// runs of one seed, a measure that nobody knows and no run has, or a margin that is missing or out
/// of (0, 0.1].
[[nodiscard]] QualityStudy judge_quality(const QualitySide& judged,
                                         const QualityOptions& options = {});
/// Judges runs without distances.
[[nodiscard]] QualityStudy judge_quality(const Side& side, const QualityOptions& options = {});

}  // namespace noisemark::reports
