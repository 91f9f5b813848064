#include "reports/compare/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/base/quantity.h"
#include "reports/base/statistics.h"
#include "reports/compare/inference.h"

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

namespace {

constexpr double kMostDeviations = 40;  // a difference beyond it takes thousands of pairs to prove
constexpr const char* kWeaker = "weaker evidence: not made in turns";

/// Turns an interval of the logarithm of the worsening into one of the ratio.
Interval ratio_interval(Interval log, Direction direction) {
  if (direction == Direction::kHigher) log = {-log.high, -log.low};
  return {std::exp(log.low), std::exp(log.high)};
}

double margin_of(const StochasticRow& row) {
  return std::log1p(row.margin_frac);
}

/// Runs that were not made in turns say nothing where nobody knows how far sessions differ.
bool lacks_calibration(const StochasticRow& row) {
  return row.stored && row.session_deviation == 0;
}

void test_gated(PairedSample& sample) {
  StochasticRow& row = sample.row;
  const bool welch = row.stored && !lacks_calibration(row) && sample.sides.base.size() > 1;
  sample.p = welch ? stored_p(sample.sides, margin_of(row), row.session_deviation)
                   : paired_p(sample.worsening, margin_of(row));
  row.p = sample.p.worse;
}

/// Returns how many pairs would prove what the estimate suggests.
std::optional<int64_t> pairs_needed(const std::vector<double>& worsening, double margin,
                                    const Sensitivity& sensitivity, int64_t fewest) {
  const double estimate = hodges_lehmann(worsening);
  const double deviation = standard_deviation(worsening);
  const double distance = std::abs(margin - std::abs(estimate));
  if (!(distance > 0) || deviation > kMostDeviations * distance) return std::nullopt;
  const bool beyond = std::abs(estimate) > margin;
  return std::max(fewest, beyond ? pairs_to_detect(deviation, distance, sensitivity)
                                 : pairs_to_prove_equal(deviation, distance, sensitivity));
}

/// The options that one gated row is judged with besides its figures.
struct Family {
  double alpha = 0;
  int64_t gates = 0;
  int64_t fewest = 0;  ///< pairs that can reach alpha
};

void say_too_few(StochasticRow& row, const Family& family) {
  row.pairs_needed = family.fewest;
  decide(row, CompareVerdict::kTooFewPairs,
         fmt::format("{} can never reach alpha {} among {}", format_counted(row.pairs, "pair"),
                     format_number(family.alpha), format_counted(family.gates, "gate")));
}

/// Pairs of runs that were not made in turns mean nothing, so the ratio is another one, too.
void describe(StochasticRow& row, const Evidence& evidence) {
  if (row.stored) {
    const bool higher = row.direction == Direction::kHigher;
    row.ratio = std::exp(higher ? -evidence.estimate : evidence.estimate);
  }
  row.ratio_ci95 = ratio_interval(evidence.wide, row.direction);
}

Evidence evidence_of(const PairedSample& sample, const StochasticOptions& options) {
  const double margin = margin_of(sample.row);
  if (!sample.row.stored) return paired_evidence(sample.worsening, margin, options);
  return stored_evidence(sample.sides, margin, sample.row.session_deviation, options.alpha);
}

void say_inconclusive(PairedSample& sample, const Family& family, const Sensitivity& sensitivity,
                      const std::string& words) {
  StochasticRow& row = sample.row;
  if (!row.stored) {
    row.pairs_needed = pairs_needed(sample.worsening, margin_of(row), sensitivity, family.fewest);
  }
  decide(row, CompareVerdict::kInconclusive, words);
}

void judge_by_interval(PairedSample& sample, const Family& family, const Evidence& evidence) {
  StochasticRow& row = sample.row;
  const double margin = margin_of(row);
  const Interval& wide = evidence.wide;
  const Interval& narrow = evidence.narrow;
  const Sensitivity sensitivity{family.alpha};
  row.detectable_frac = std::expm1(smallest_detectable(evidence.deviation, row.pairs, sensitivity));
  const bool better = sample.p.better * static_cast<double>(family.gates) < family.alpha;
  if (*row.p_adjusted < family.alpha && wide.low > margin) {
    if (sample.p.beyond < family.alpha) {
      decide(row, CompareVerdict::kRegression,
             fmt::format("worse by {}, at least {}", format_percent(std::expm1(evidence.estimate)),
                         format_percent(std::expm1(wide.low))));
    } else {
      say_inconclusive(sample, family, sensitivity, "worse, but not surely beyond the margin");
    }
  } else if (-margin < narrow.low && narrow.high < margin &&
             evidence.equivalence.p() < family.alpha) {
    row.verdict = CompareVerdict::kEquivalent;
  } else if (wide.high < 0 && better) {
    row.verdict = CompareVerdict::kImproved;
  } else if (wide.high < margin && evidence.equivalence.p_upper < family.alpha) {
    row.verdict = CompareVerdict::kNotWorse;
  } else {
    say_inconclusive(sample, family, sensitivity, "the interval reaches across the margin");
  }
  if (row.stored) row.words += (row.words.empty() ? "" : "; ") + std::string(kWeaker);
}

/// Returns whether there is anything to judge; if not, says why, the worst first.
bool refused(PairedSample& sample, const Family& family) {
  StochasticRow& row = sample.row;
  if (!sample.timing.throttled.empty()) {
    decide(row, CompareVerdict::kInvalidClocks, sample.timing.throttled);
  } else if (row.pairs < family.fewest) {
    say_too_few(row, family);
  } else if (row.margin_frac > kWidestMarginFrac) {
    decide(row, CompareVerdict::kCalibrationNeeded,
           fmt::format("a noise floor of {} leaves no gate", format_percent(row.noise_floor_frac)));
  } else if (lacks_calibration(row)) {
    decide(row, CompareVerdict::kCalibrationNeeded,
           "BASE and NEW were not made in turns, and nothing says how far sessions differ");
  } else if (!sample.timing.unsteady.empty()) {
    decide(row, CompareVerdict::kUnstable, sample.timing.unsteady);
  } else {
    return false;
  }
  return true;
}

void judge(PairedSample& sample, const Family& family, const StochasticOptions& options) {
  StochasticRow& row = sample.row;
  const bool equal = std::all_of(sample.worsening.begin(), sample.worsening.end(),
                                 [](double value) { return value == 0; });
  const bool same = equal && !row.stored && sample.timing.throttled.empty();
  if (same) row.words = "equal in every pair";
  if (same || refused(sample, family)) {
    describe_ratio(sample, options.resamples, options.seed);
  } else {
    // It has the interval of the ratio too, because drawing that again takes as long as all the
    // rest.
    const Evidence evidence = evidence_of(sample, options);
    describe(row, evidence);
    judge_by_interval(sample, family, evidence);
  }
}

}  // namespace

void decide(StochasticRow& row, CompareVerdict verdict, const std::string& words) {
  row.verdict = verdict;
  row.words = words;
}

void describe_ratio(PairedSample& sample, int64_t resamples, uint64_t seed) {
  if (sample.worsening.size() < 2) return;
  sample.row.ratio_ci95 = ratio_interval(
      bootstrap_hodges_lehmann(sample.worsening, {resamples, seed, 0.95}), sample.row.direction);
}

void judge_gates(const std::vector<PairedSample*>& samples, const StochasticOptions& options) {
  if (samples.empty()) return;
  std::vector<double> p;
  std::vector<double> beyond;
  for (PairedSample* sample : samples) {
    test_gated(*sample);
    p.push_back(sample->p.worse);
    beyond.push_back(sample->p.beyond);
  }
  const std::vector<double> adjusted = holm(p);
  const std::vector<double> adjusted_beyond = holm(beyond);
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i]->row.p_adjusted = adjusted[i];
    samples[i]->p.beyond = adjusted_beyond[i];
  }
  const auto gates = static_cast<int64_t>(samples.size());
  const Family family{options.alpha, gates, fewest_pairs(options.alpha, gates)};
  for (PairedSample* sample : samples) judge(*sample, family, options);
}

}  // namespace noisemark::reports
