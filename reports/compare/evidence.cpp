#include "reports/compare/evidence.h"

#include <algorithm>
#include <cmath>

#include "reports/compare/paired_estimate.h"
#include "reports/compare/signed_rank.h"
#include "reports/statistics.h"

namespace noisemark::reports {
namespace {

constexpr double kWideAlpha = 0.025;
constexpr double kNarrowAlpha = 0.05;

/// The estimate that belongs to ranks of two samples (Hodges and Lehmann 1963).
double shift_of(const TwoSamples& sides) {
  std::vector<double> shifts;
  for (const double a : sides.base) {
    for (const double b : sides.candidate) shifts.push_back(b - a);
  }
  return median(shifts);
}

}  // namespace

OneSided paired_p(std::span<const double> worsening, double margin) {
  std::vector<double> beyond(worsening.begin(), worsening.end());
  for (double& value : beyond) value -= margin;
  return {wilcoxon_signed_rank(worsening, Alternative::kGreater).p,
          wilcoxon_signed_rank(worsening, Alternative::kLess).p,
          wilcoxon_signed_rank(beyond, Alternative::kGreater).p};
}

Evidence paired_evidence(std::span<const double> worsening, double margin,
                         const StochasticOptions& options) {
  const BootstrapEstimates estimates(worsening, options.resamples, options.seed);
  return {hodges_lehmann(worsening), standard_deviation(worsening), estimates.interval(0.95),
          estimates.interval(0.90), paired_equivalence(worsening, margin, options.alpha)};
}

OneSided stored_p(const TwoSamples& sides, double margin, double session_deviation) {
  const double variance = session_deviation * session_deviation;
  // A margin so small that it moves no p: the test is then of a difference of 0.
  const double none = margin * 1e-12;
  const Equivalence at_zero =
      welch_equivalence(sides.base, sides.candidate, none, kNarrowAlpha, variance);
  const Equivalence at_margin =
      welch_equivalence(sides.base, sides.candidate, margin, kNarrowAlpha, variance);
  return {at_zero.p_lower, at_zero.p_upper, 1 - at_margin.p_upper};
}

Evidence stored_evidence(const TwoSamples& sides, double margin, double session_deviation,
                         double alpha) {
  const double variance = session_deviation * session_deviation;
  const auto welch = [&](double level) {
    return welch_equivalence(sides.base, sides.candidate, margin, level, variance);
  };
  const Equivalence equivalence = welch(alpha);
  const auto runs = static_cast<double>(std::min(sides.base.size(), sides.candidate.size()));
  return {shift_of(sides), equivalence.standard_error * std::sqrt(runs), welch(kWideAlpha).interval,
          welch(kNarrowAlpha).interval, equivalence};
}

}  // namespace noisemark::reports
