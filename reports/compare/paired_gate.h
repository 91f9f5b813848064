#pragma once

#include <vector>

#include "reports/compare/comparison.h"
#include "reports/compare/evidence.h"
#include "reports/compare/stochastic_tier.h"
#include "reports/compare/timing_conditions.h"

namespace noisemark::reports {

/// A row and the differences that it is judged by.
struct PairedSample {
  StochasticRow row;              ///< cell, metric, unit, direction, pairs and margin filled in
  std::vector<double> worsening;  ///< log-ratio of each pair, positive is worse; never empty
  TwoSamples sides;               ///< where the row is stored
  TimingConditions timing;        ///< of a figure of time
  OneSided p;
};

/// Fills in the interval of the ratio, by bootstrap. One pair has none.
void describe_ratio(PairedSample& sample, int64_t resamples, uint64_t seed);

/// Describes, tests and judges all gated samples of a comparison as one family, by the rules of
/// stochastic_tier.h.
void judge_gates(const std::vector<PairedSample*>& samples, const StochasticOptions& options);

/// "not worse" and the like with words: what every judgement of a row ends with.
void decide(StochasticRow& row, CompareVerdict verdict, const std::string& words);

}  // namespace noisemark::reports
