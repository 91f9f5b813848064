#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/statistics.h"
#include "reports/result/result.h"
#include "reports/seeds/difference_test.h"
#include "reports/seeds/judge.h"
#include "reports/seeds/measures.h"
#include "reports/seeds/study.h"
#include "reports/seeds/variants.h"

namespace noisemark::reports {

/// A row and the figures that it is judged by.
struct RowSample {
  QualityRow row;  ///< names, scale, seeds and means filled in
  Measure measure;
  SeedValues values;
  bool same_bits = false;  ///< every pair trained to the same weights
  /// The finding that forbids a PASS before anything is tested: a run without the figure, or one
  /// that was not finite, which is a FAIL where the reference was. kPass: nothing.
  QualityVerdict problem = QualityVerdict::kPass;
  std::string problem_words;
};

/// Takes the figures of all pairs of a pairing; pairs without the figure on both sides are left out
/// and are a problem.
[[nodiscard]] RowSample sample_row(const Pairing& pairing, const Measure& measure);

/// Takes the unweighted losses at one timestep likewise.
[[nodiscard]] RowSample sample_timestep(const Pairing& pairing, int64_t timestep);

/// Fills in the difference of a row with its interval, and by what test: of two seeds or more.
void describe_row(RowSample& sample, double alpha);

/// Describes, tests and judges all gated rows as one family, by the rules of judge.h, with the
/// share of alpha that the gates of this look have. Returns how many were tested.
int64_t judge_rows(const std::vector<RowSample*>& samples, const QualityOptions& options,
                   const Looks& looks = {});

// Tier 3: must a distance (FID, KID, or one of another name) lie in a range on both sides? Too
// small a distance is as suspicious as too large a one: stale reference statistics, too few
// samples.

/// The interval of a distance that was computed from features, from `replicates`: the same distance
/// of features drawn again with replacement. What they spread about their mean turned about
/// `value`, as the basic bootstrap interval does (Davison and Hinkley 1997, section 5.2), but
/// without their bias: a Fréchet distance of resampled features is larger than that of the features
/// themselves as that one is than the truth, and a range is set for what so many samples give, not
/// for the truth. Throws std::logic_error for no replicates, or values that are not finite.
[[nodiscard]] Interval resampled_interval(double value, std::span<const double> replicates,
                                          double confidence);

/// Fewer seeds give no interval that can be believed: a mean's percentile bootstrap of three misses
/// it in a quarter of the cases.
inline constexpr size_t kFewestSeedsOfRange = 5;

/// The interval of the mean over seeds: the percentile bootstrap (Efron 1979) and Student's t
/// interval together, from the lower end of both to the upper, because the bootstrap of a few seeds
/// is too short. Throws std::logic_error for fewer than two values, or values that are not finite.
[[nodiscard]] Interval seed_interval(std::span<const double> values,
                                     const BootstrapOptions& options);

struct RangeVerdict {
  QualityVerdict verdict = QualityVerdict::kInconclusive;
  std::string words;
};

/// PASS within [low, high], FAIL outside of it, INCONCLUSIVE across one of its ends. Throws
/// std::logic_error unless low < high.
[[nodiscard]] RangeVerdict judge_range(const Interval& interval, double low, double high);

/// A row of `range` over the runs of one variant. `confidence` is of the interval: its caller
/// shares alpha among all ranges, and between them, the gates and the looks. Claims nothing where
/// no look is left.
[[nodiscard]] RangeRow judge_range_row(const std::vector<const NamedResult*>& runs,
                                       const QualityRange& range, const BootstrapOptions& options,
                                       const Looks& looks = {});

/// Tiers 0 and 1: what is known about every step of a mode, before any statistics. It is nothing
/// for a variant whose mode says neither (its runs never came to their passes), and for mode
/// "none".
///
/// Tier 0, of a lossless mode: bits.
///   FAIL          a run's certificate failed; or both runs of a seed were deterministic, and
///                 weights or their averages differ;
///   PASS          every seed has the bits of its reference, or a certificate that passed;
///   INCONCLUSIVE  a certificate was to be made and is unavailable;
///   else not judged, and words say why.
/// Tier 1, of a lossy mode: the largest relative error of one step's gradient over the seeds that
/// measured it is at most the bound of these runs' own gate. It is not judged where none did.
[[nodiscard]] std::vector<StepRow> step_rows(const Pairing& pairing);

}  // namespace noisemark::reports
