#include "reports/compare/stochastic_tier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "reports/compare/equivalence.h"
#include "reports/compare/exact_tier.h"
#include "reports/compare/multiplicity.h"
#include "reports/compare/paired_estimate.h"
#include "reports/compare/repetitions.h"
#include "reports/compare/signed_rank.h"
#include "reports/gate.h"
#include "reports/quantity.h"

namespace noisemark::reports {
namespace {

constexpr int64_t kExploratoryResamples = 1000;
constexpr double kMostDeviations = 40;  // per difference to prove: beyond, thousands of pairs

/// A row and what it is judged by.
struct Sample {
  StochasticRow row;
  std::vector<double> worsening;  ///< log-ratios, positive is worse; empty: judged already
  double p_better = 1;
};

const GatedMetric* gate_of(const std::string& metric) {
  for (const GatedMetric& gate : gated_metrics()) {
    if (gate.name == metric) return &gate;
  }
  return nullptr;
}

std::vector<std::string> metric_names(const Cell& cell) {
  std::vector<std::string> names;
  for (const auto& [base, candidate] : cell.pairs) {
    for (const NamedResult* run : {base, candidate}) {
      for (const Metric& metric : run->result.metrics) {
        const bool known = std::find(names.begin(), names.end(), metric.name) != names.end();
        if (!known && !exact_metrics().contains(metric.name)) names.push_back(metric.name);
      }
    }
  }
  return names;
}

/// What the runs of one side say about a metric.
struct Column {
  std::vector<double> values;
  std::set<std::string> units;
  std::set<Direction> directions;
  size_t missing = 0;
  size_t not_positive = 0;
};

Column column_of(const Cell& cell, const std::string& name, bool base) {
  Column column;
  for (const RunPair& pair : cell.pairs) {
    const Metric* metric = find_metric((base ? pair.first : pair.second)->result, name);
    if (metric == nullptr || !metric->value) {
      ++column.missing;
      continue;
    }
    column.units.insert(metric->unit);
    column.directions.insert(metric->direction);
    column.values.push_back(*metric->value);
    column.not_positive += *metric->value > 0 ? 0 : 1;
  }
  return column;
}

void decide(StochasticRow& row, CompareVerdict verdict, const std::string& words) {
  row.verdict = verdict;
  row.words = words;
}

/// Judges a row whose figures cannot be compared; true when it did.
bool unusable(StochasticRow& row, const Column& base, const Column& candidate) {
  if (base.values.empty() && candidate.values.empty()) {
    row.gated = false;
    row.words = "measured on neither side";
  } else if (base.missing > 0) {
    decide(row, CompareVerdict::kCalibrationNeeded, "the base has no value");
  } else if (candidate.missing > 0) {
    decide(row, CompareVerdict::kNotComparable, "no longer measured");
  } else if (base.units != candidate.units || base.units.size() > 1) {
    decide(row, CompareVerdict::kNotComparable, "the units differ");
  } else if (base.directions != candidate.directions || base.directions.size() > 1) {
    decide(row, CompareVerdict::kNotComparable, "the directions differ");
  } else if (base.not_positive > 0) {
    decide(row, CompareVerdict::kCalibrationNeeded, "the base is zero or negative");
  } else if (candidate.not_positive > 0) {
    decide(row, CompareVerdict::kNotComparable, "zero or negative");
  } else {
    return false;
  }
  return true;
}

Interval exp_of(const Interval& log) {
  return {std::exp(log.low), std::exp(log.high)};
}

Sample sample_of(const Cell& cell, const std::string& name, const StochasticOptions& options) {
  const Column base = column_of(cell, name, true);
  const Column candidate = column_of(cell, name, false);
  Sample sample;
  StochasticRow& row = sample.row;
  row.cell = cell.name;
  row.metric = name;
  row.pairs = static_cast<int64_t>(cell.pairs.size());
  const Column& known = base.units.empty() ? candidate : base;
  if (!known.units.empty()) row.unit = *known.units.begin();
  if (!known.directions.empty()) row.direction = *known.directions.begin();
  if (!base.values.empty()) row.base = median(base.values);
  if (!candidate.values.empty()) row.candidate = median(candidate.values);
  if (const GatedMetric* gate = gate_of(name)) {
    const auto floor = options.noise_floor_frac.find(name);
    row.gated = true;
    row.noise_floor_frac = floor == options.noise_floor_frac.end() ? 0 : floor->second;
    row.margin_frac = std::max(gate->margin_frac, 2 * row.noise_floor_frac);
  }
  if (unusable(row, base, candidate)) return sample;
  const std::vector<double> ratios = log_ratios(base.values, candidate.values);
  row.ratio = std::exp(hodges_lehmann(ratios));
  sample.worsening = ratios;
  if (row.direction == Direction::kHigher) {
    for (double& value : sample.worsening) value = -value;
  }
  return sample;
}

void test_gated(Sample& sample) {
  sample.row.p = wilcoxon_signed_rank(sample.worsening, Alternative::kGreater).p;
  sample.p_better = wilcoxon_signed_rank(sample.worsening, Alternative::kLess).p;
}

void describe(Sample& sample, int64_t resamples, uint64_t seed) {
  if (sample.worsening.size() < 2) return;
  Interval log = bootstrap_hodges_lehmann(sample.worsening, {resamples, seed, 0.95});
  if (sample.row.direction == Direction::kHigher) log = {-log.high, -log.low};
  sample.row.ratio_ci95 = exp_of(log);
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

void judge_by_interval(Sample& sample, const Family& family, const StochasticOptions& options) {
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

void judge(Sample& sample, const Family& family, const StochasticOptions& options) {
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

void adjust(std::vector<Sample*>& samples, std::vector<double> (*method)(std::span<const double>)) {
  std::vector<double> p;
  for (const Sample* sample : samples) p.push_back(*sample->row.p);
  const std::vector<double> adjusted = method(p);
  for (size_t i = 0; i < samples.size(); ++i) samples[i]->row.p_adjusted = adjusted[i];
}

}  // namespace

const std::vector<GatedMetric>& gated_metrics() {
  static const std::vector<GatedMetric> table = {{"images_per_s", 0.03}, {"val_loss", 0.01}};
  return table;
}

std::vector<StochasticRow> compare_stochastic(const std::vector<Cell>& cells,
                                              const StochasticOptions& options) {
  std::vector<Sample> samples;
  for (const Cell& cell : cells) {
    for (const std::string& name : metric_names(cell)) {
      samples.push_back(sample_of(cell, name, options));
    }
  }
  std::stable_partition(samples.begin(), samples.end(),
                        [](const Sample& sample) { return sample.row.gated; });
  std::vector<Sample*> gated;
  std::vector<Sample*> others;
  for (Sample& sample : samples) {
    if (sample.worsening.empty()) continue;
    (sample.row.gated ? gated : others).push_back(&sample);
  }
  for (Sample* sample : gated) {
    test_gated(*sample);
    describe(*sample, options.resamples, options.seed);
  }
  for (Sample* sample : others) {
    sample->row.p = wilcoxon_signed_rank(sample->worsening, Alternative::kTwoSided).p;
    describe(*sample, std::min(options.resamples, kExploratoryResamples), options.seed);
  }
  adjust(gated, holm);
  adjust(others, benjamini_hochberg);
  const auto gates = static_cast<int64_t>(gated.size());
  const Family family{options.alpha, gates, gates > 0 ? fewest_pairs(options.alpha, gates) : 0};
  for (Sample* sample : gated) judge(*sample, family, options);
  std::vector<StochasticRow> rows;
  for (Sample& sample : samples) rows.push_back(std::move(sample.row));
  return rows;
}

}  // namespace noisemark::reports
