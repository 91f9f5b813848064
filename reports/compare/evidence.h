#pragma once

#include <span>
#include <vector>

#include "reports/compare/compare.h"
#include "reports/compare/comparison.h"
#include "reports/compare/inference.h"
#include "reports/result/result.h"

/// The evidence that a gated row is judged by, however its runs were made. All of it is in
/// logarithms of the worsening: positive is worse.
namespace noisemark::reports {

struct Evidence {
  double estimate = 0;
  double deviation = 0;  ///< standard deviation of one pair
  Interval wide;         ///< 95 %
  Interval narrow;       ///< 90 %
  Equivalence equivalence;
};

/// One-sided p-values.
struct OneSided {
  double worse = 1;   ///< p of the null hypothesis "not worse"
  double better = 1;  ///< p of the null hypothesis "not better"
  double beyond = 1;  ///< p of the null hypothesis "worse by at most the margin"
};

/// Both sides of a row on their own, as logarithms of what is worse when it is larger.
struct TwoSamples {
  std::vector<double> base;
  std::vector<double> candidate;
};

/// Judges pairs made in turns, by the Hodges-Lehmann estimate with its bootstrap interval and the
/// exact signed-rank test. The interval of a few pairs is too short, which is why a regression asks
/// the rank test about the margin too.
[[nodiscard]] OneSided paired_p(std::span<const double> worsening, double margin);
[[nodiscard]] Evidence paired_evidence(std::span<const double> worsening, double margin,
                                       const StochasticOptions& options);

/// Judges runs that were not made in turns, such as a stored baseline, by Welch's t test with the
/// variance between sessions added, which the runs of one session cannot show. `session_deviation`
/// is the standard deviation by which two sessions of one build differ.
[[nodiscard]] OneSided stored_p(const TwoSamples& sides, double margin, double session_deviation);
[[nodiscard]] Evidence stored_evidence(const TwoSamples& sides, double margin,
                                       double session_deviation, double alpha);

/// A row and the differences that it is judged by.
struct PairedSample {
  StochasticRow row;              ///< cell, metric, unit, direction, pairs and margin filled in
  std::vector<double> worsening;  ///< log-ratio of each pair, positive is worse; never empty
  TwoSamples sides;               ///< both sides' figures; empty unless row.stored
  TimingConditions timing;        ///< conditions of timing, for a gated figure of time
  OneSided p;
};

/// Fills in the interval of the ratio, by bootstrap. One pair has none.
void describe_ratio(PairedSample& sample, int64_t resamples, uint64_t seed);

/// Describes, tests and judges all gated samples of a comparison as one family, by the rules of
/// compare.h.
void judge_gates(const std::vector<PairedSample*>& samples, const StochasticOptions& options);

/// "not worse" and the like with words: what every judgement of a row ends with.
void decide(StochasticRow& row, CompareVerdict verdict, const std::string& words);

}  // namespace noisemark::reports
