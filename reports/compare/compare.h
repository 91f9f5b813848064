#pragma once

#include <map>
#include <string>
#include <vector>

#include "reports/base/statistics.h"
#include "reports/compare/comparison.h"
#include "reports/compare/sides.h"
#include "reports/result/result.h"

namespace noisemark::reports {

/// A side of whose timings more saw the device slow itself down says nothing about the code.
inline constexpr double kMostThrottledFrac = 0.05;

/// The conditions under which the runs of a cell were timed.
struct TimingConditions {
  bool stored = false;    ///< the runs were not made in turns: what moved the machine in between is
                          ///< in the figures
  std::string unsteady;   ///< most runs of a side never became steady: which; empty: they did
  std::string throttled;  ///< the device slowed itself down in more than 5 % of a side: which
};

/// The noise of a metric on one machine, as a calibration measured it.
struct Noise {
  double floor_frac = 0;         ///< 95 % of comparisons in turns show at most this difference
  double session_deviation = 0;  ///< deviation of the logarithms of two sessions; 0 where it is not
                                 ///< known
};

struct StochasticOptions {
  double alpha = kAlpha;
  int64_t resamples = kResamples;  ///< bootstrap resamples of a gated row
  uint64_t seed = 0;
  /// The calibrated noise of each metric; of one cell alone by "CELL: METRIC".
  std::map<std::string, Noise> noise;
  bool gates = true;  ///< is false for the long table alone, of runs that are too few to judge
                      ///< noise
};

/// Above this margin there is too much noise for a gate.
inline constexpr double kWidestMarginFrac = 0.10;

/// Figures with noise, one row per metric and cell, gated rows first. Unit of replication is the
/// run: log-ratios of pairs, the Hodges-Lehmann estimate with its bootstrap interval, Wilcoxon's
/// signed-rank test. Gated rows share alpha by Holm; all others are a table to look at, adjusted by
/// Benjamini and Hochberg, and judge nothing, unless their units or directions differ. With m the
/// margin in force, max(margin, 2 x floor):
///
/// - regression: the 95 % interval of the worsening lies above m, and p of "not worse" and p of
///   "worse by at most m" are below alpha;
/// - equivalent: the 90 % interval lies within ±m, and two one-sided t tests agree; or all pairs
///   are equal;
/// - improved: the 95 % interval lies below 0, and p of "not better" is below alpha;
/// - not worse: the 95 % interval lies below m, and its one-sided t test agrees;
/// - inconclusive: none of these;
/// - too few: so few pairs could never reach alpha, and are refused.
///
/// A proven regression of the validation loss is a quality fail. Figures of time that were not made
/// in turns are judged as weaker evidence (evidence.h); they are unstable where most runs of a
/// side never became steady, and their clocks are invalid where more than 5 % of them saw the
/// device slow itself down. Rows of cells that are not comparable must be left out by the caller.
[[nodiscard]] std::vector<StochasticRow> compare_stochastic(const std::vector<Cell>& cells,
                                                            const StochasticOptions& options = {});

/// Figures without noise, one row each over all pairs of a cell, with margin 0: allocated bytes,
/// bytes by owner at the peak and at every phase boundary, leaked bytes, parameters, FLOP per
/// image, and under `--deterministic` the digest of the loss trace. Bytes may fall; the
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

/// Judges `candidate` against `base`: identity first, and what is not the same work on the same
/// machine is not comparable, never a pass; then figures without noise, exactly; then figures with
/// noise, statistically. The worst finding decides. Every cell or run on one side only is listed,
/// and so is every run that left no result; sides of which NEW is the older by every clock are not
/// comparable. A pure function: the same results in any order of their runs give the same
/// comparison. Throws Error (bad input) when a run is on both sides, or a side is empty.
[[nodiscard]] Comparison compare(const Side& base, const Side& candidate,
                                 const StochasticOptions& options = {});

/// One sentence on what changed from BASE's runs of the same cell to `now`: speed, memory and loss
/// beside the medians of BASE, and whether both did the same work on the same machine. It proves
/// nothing; `noisemark compare` does. A pure function.
[[nodiscard]] std::string since_words(const Side& base, const NamedResult& now);

}  // namespace noisemark::reports
