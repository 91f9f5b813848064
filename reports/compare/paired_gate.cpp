#include "reports/compare/paired_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/compare/equivalence.h"
#include "reports/compare/multiplicity.h"
#include "reports/compare/paired_estimate.h"
#include "reports/compare/repetitions.h"
#include "reports/compare/signed_rank.h"
#include "reports/quantity.h"

namespace noisemark::reports {
namespace {

constexpr double kMostDeviations = 40;  // per difference to prove: beyond, thousands of pairs

Interval exp_of(const Interval& log) {
  return {std::exp(log.low), std::exp(log.high)};
}

void test_gated(PairedSample& sample) {
  sample.row.p = wilcoxon_signed_rank(sample.worsening, Alternative::kGreater).p;
  sample.p_better = wilcoxon_signed_rank(sample.worsening, Alternative::kLess).p;
}

/// To prove what the estimate suggests.
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

/// What one gated row is judged with besides its figures.
struct Family {
  double alpha = 0;
  int64_t gates = 0;
  int64_t fewest = 0;  ///< pairs that can reach alpha
};

void say_too_few(StochasticRow& row, const Family& family) {
  row.pairs_needed = family.fewest;
  decide(row, CompareVerdict::kInconclusive,
         fmt::format("{} {} can never reach alpha {} among {} {}", row.pairs,
                     row.pairs == 1 ? "pair" : "pairs", format_number(family.alpha), family.gates,
                     family.gates == 1 ? "gate" : "gates"));
}

void judge_by_interval(PairedSample& sample, const Family& family,
                       const StochasticOptions& options) {
  StochasticRow& row = sample.row;
  const std::vector<double>& worsening = sample.worsening;
  const double margin = std::log1p(row.margin_frac);
  const auto interval = [&](double confidence) {
    return bootstrap_hodges_lehmann(worsening, {options.resamples, options.seed, confidence});
  };
  const Interval wide = interval(0.95);
  const Interval narrow = interval(0.90);
  const Equivalence t = paired_equivalence(worsening, margin, family.alpha);
  const Sensitivity sensitivity{family.alpha, 0.8};
  row.detectable_frac =
      std::expm1(smallest_detectable(standard_deviation(worsening), row.pairs, sensitivity));
  const bool better = sample.p_better * static_cast<double>(family.gates) < family.alpha;
  if (*row.p_adjusted < family.alpha && wide.low > margin) {
    decide(row, CompareVerdict::kRegression,
           fmt::format("worse by {}, at least {}",
                       format_percent(std::expm1(hodges_lehmann(worsening))),
                       format_percent(std::expm1(wide.low))));
  } else if (-margin < narrow.low && narrow.high < margin && t.p() < family.alpha) {
    row.verdict = CompareVerdict::kEquivalent;
  } else if (wide.high < 0 && better) {
    row.verdict = CompareVerdict::kImproved;
  } else if (wide.high < margin && t.p_upper < family.alpha) {
    row.verdict = CompareVerdict::kNotWorse;
  } else {
    row.pairs_needed = pairs_needed(worsening, margin, sensitivity, family.fewest);
    decide(row, CompareVerdict::kInconclusive, "the interval reaches across the margin");
  }
}

void judge(PairedSample& sample, const Family& family, const StochasticOptions& options) {
  StochasticRow& row = sample.row;
  const bool equal = std::all_of(sample.worsening.begin(), sample.worsening.end(),
                                 [](double value) { return value == 0; });
  if (row.margin_frac > kWidestMarginFrac) {
    decide(row, CompareVerdict::kCalibrationNeeded,
           fmt::format("a noise floor of {} leaves no gate", format_percent(row.noise_floor_frac)));
  } else if (equal) {
    row.words = "equal in every pair";
  } else if (row.pairs < family.fewest) {
    say_too_few(row, family);
  } else {
    judge_by_interval(sample, family, options);
  }
}

}  // namespace

void decide(StochasticRow& row, CompareVerdict verdict, const std::string& words) {
  row.verdict = verdict;
  row.words = words;
}

void describe_ratio(PairedSample& sample, int64_t resamples, uint64_t seed) {
  if (sample.worsening.size() < 2) return;
  Interval log = bootstrap_hodges_lehmann(sample.worsening, {resamples, seed, 0.95});
  if (sample.row.direction == Direction::kHigher) log = {-log.high, -log.low};
  sample.row.ratio_ci95 = exp_of(log);
}

void judge_gates(const std::vector<PairedSample*>& samples, const StochasticOptions& options) {
  if (samples.empty()) return;
  std::vector<double> p;
  for (PairedSample* sample : samples) {
    test_gated(*sample);
    describe_ratio(*sample, options.resamples, options.seed);
    p.push_back(*sample->row.p);
  }
  const std::vector<double> adjusted = holm(p);
  for (size_t i = 0; i < samples.size(); ++i) samples[i]->row.p_adjusted = adjusted[i];
  const auto gates = static_cast<int64_t>(samples.size());
  const Family family{options.alpha, gates, fewest_pairs(options.alpha, gates)};
  for (PairedSample* sample : samples) judge(*sample, family, options);
}

}  // namespace noisemark::reports
