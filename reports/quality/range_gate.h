#pragma once

#include <span>
#include <string>

#include "reports/quality/judge.h"
#include "reports/quality/quality.h"
#include "reports/result.h"
#include "reports/statistics.h"

/// Tier 3: must a distance (FID, KID, or one of another name) lie in a range on both sides? Too
/// small a distance is as suspicious as too large a one: stale reference statistics, too few
/// samples.
namespace noisemark::reports {

/// Of a distance that was computed from features, from `replicates`: the same distance of features
/// drawn again with replacement. What they spread about their mean turned about `value`, as the
/// basic bootstrap interval does (Davison and Hinkley 1997, section 5.2), but without their bias: a
/// Fréchet distance of resampled features is larger than that of the features themselves as that
/// one is than the truth, and a range is set for what so many samples give, not for the truth.
/// Throws std::logic_error for no replicates, or values that are not finite.
[[nodiscard]] Interval resampled_interval(double value, std::span<const double> replicates,
                                          double confidence);

/// Fewer seeds give no interval that can be believed: a mean's percentile bootstrap of three misses
/// it in a quarter of the cases.
inline constexpr size_t kFewestSeedsOfRange = 5;

/// Of the mean over seeds: the percentile bootstrap (Efron 1979) and Student's t interval together,
/// from the lower end of both to the upper, because the bootstrap of a few seeds is too short.
/// Throws std::logic_error for fewer than two values, or values that are not finite.
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

}  // namespace noisemark::reports
