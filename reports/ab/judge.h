#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/ab/record.h"
#include "reports/base/statistics.h"
#include "reports/compare/comparison.h"
#include "reports/result/result.h"

namespace noisemark::reports {

/// Figures without noise of runs of two builds, judged as `compare` does (compare.h): bytes,
/// also by owner, FLOP per image, losses, and whether the runs passed their own gates. Parameters
/// are left out: the processes that take turns say them. The software may differ, for it may be
/// what is compared; where the work differs (sides.h) there are no rows. Of several runs every
/// one of B is compared with every one of A, and only what all say alike is a difference between
/// builds: else the figure is inconclusive. Throws Error (bad input) when a run is on both sides.
[[nodiscard]] std::vector<ExactRow> compare_exact_figures(const std::vector<Result>& a,
                                                          const std::vector<Result>& b);

/// The finding on the losses of two builds. Both train from the same weights, data and seeds, so
/// that their losses are equal bit for bit unless one of them computes something else.
struct LossFinding {
  std::optional<ExactRow> row;  ///< is empty where nothing is judged, and `note` says why
  std::string note;             ///< may be empty
};

/// Compares every step that all processes made. A difference is a regression; with `other_losses`
/// only a note. A build that does not repeat its own losses from process to process is
/// inconclusive, unless A is such a one already and the profile does not promise it: then nothing
/// is judged.
[[nodiscard]] LossFinding compare_losses(const AbRecord& record, const std::string& cell,
                                         bool other_losses);

/// The smallest count of pairs of processes that `ab` accepts: with it the first of two looks at
/// the data can already reach its share of `alpha`.
[[nodiscard]] int64_t fewest_ab_pairs(double alpha = kAlpha);

struct AbOptions {
  double alpha = kAlpha;           ///< both looks have half of it
  int64_t resamples = kResamples;  ///< bootstrap resamples
  uint64_t seed = 0;
  std::optional<double> noise_floor_frac;  ///< replaces the record's
  bool other_losses = false;  ///< B may train other numbers: the traces are told apart, not judged
};

/// One pair of processes. Its worsening is Hodges and Lehmann's estimate of a shift (1963), within
/// couples: the median of log(step of B / step of A) over all steps of turns that were made one
/// right after the other. So a machine that changes its speed changes both, and what disturbs a few
/// turns disturbs no median.
struct AbPairFigure {
  AbSide first = AbSide::kA;
  int64_t blocks = 0;   ///< whole ones
  double a_step_s = 0;  ///< median
  double b_step_s = 0;
  double worsening = 0;  ///< log of B's step over A's: positive is slower
  double spread = 0;     ///< largest minus smallest worsening of the blocks
};

struct AbVerdict {
  /// The verdict that `compare` gives of runs, with a pair of processes as the unit: one cell, the
  /// row of images/s among the stochastic, losses and parameters among the exact.
  Comparison comparison;
  std::vector<AbPairFigure> pairs;  ///< all that were made
  int64_t judged_pairs = 0;         ///< the first so many: those of the last whole look
  bool extended = false;            ///< the second look was taken
};

/// Judges a record. Identity first: another benchmark, definition, data, setting or machine is not
/// comparable, never a pass; then what has no noise, bit for bit: parameters, the losses of every
/// step that both builds made, and the figures of their short runs (judge.h); then
/// images/s, by the rules and the margin of `compare` (compare.h) at half of alpha per
/// look. A look that is not whole is inconclusive; the clocks are invalid where the device was
/// seen to slow itself down, after more than 5 % of the pairs or before or after all. A pure
/// function. Throws Error (bad input) when a look has fewer pairs than fewest_ab_pairs().
[[nodiscard]] AbVerdict judge_ab(const AbRecord& record, const AbOptions& options = {});

/// Returns whether the pre-declared extension is due: the first look is whole, nothing else
/// decides, and images/s is inconclusive.
[[nodiscard]] bool wants_extension(const AbRecord& record, const AbOptions& options = {});

/// A comparison of two builds for people: the verdict and its reasons, what the builds are, the
/// gate with its interval, every pair, what has no noise, the noise, what to do next. A pure
/// function, byte for byte.
[[nodiscard]] std::string ab_markdown(const AbRecord& record, const AbVerdict& verdict);

}  // namespace noisemark::reports
