#include "reports/compare/stochastic_tier.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "reports/compare/exact_tier.h"
#include "reports/compare/multiplicity.h"
#include "reports/compare/paired_estimate.h"
#include "reports/compare/paired_gate.h"
#include "reports/compare/signed_rank.h"
#include "reports/gate.h"
#include "reports/statistics.h"

namespace noisemark::reports {
namespace {

constexpr int64_t kExploratoryResamples = 1000;
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

PairedSample sample_of(const Cell& cell, const std::string& name,
                       const StochasticOptions& options) {
  const Column base = column_of(cell, name, true);
  const Column candidate = column_of(cell, name, false);
  PairedSample sample;
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
    auto floor = options.noise_floor_frac.find(cell.name + ": " + name);
    if (floor == options.noise_floor_frac.end()) floor = options.noise_floor_frac.find(name);
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

/// Looks at what is not gated.
void explore(const std::vector<PairedSample*>& samples, const StochasticOptions& options) {
  std::vector<double> p;
  for (PairedSample* sample : samples) {
    sample->row.p = wilcoxon_signed_rank(sample->worsening, Alternative::kTwoSided).p;
    describe_ratio(*sample, std::min(options.resamples, kExploratoryResamples), options.seed);
    p.push_back(*sample->row.p);
  }
  const std::vector<double> adjusted = benjamini_hochberg(p);
  for (size_t i = 0; i < samples.size(); ++i) samples[i]->row.p_adjusted = adjusted[i];
}

}  // namespace

const std::vector<GatedMetric>& gated_metrics() {
  static const std::vector<GatedMetric> table = {{"images_per_s", 0.03}, {"val_loss", 0.01}};
  return table;
}

std::vector<StochasticRow> compare_stochastic(const std::vector<Cell>& cells,
                                              const StochasticOptions& options) {
  std::vector<PairedSample> samples;
  for (const Cell& cell : cells) {
    for (const std::string& name : metric_names(cell)) {
      samples.push_back(sample_of(cell, name, options));
    }
  }
  std::stable_partition(samples.begin(), samples.end(),
                        [](const PairedSample& sample) { return sample.row.gated; });
  std::vector<PairedSample*> gated;
  std::vector<PairedSample*> others;
  for (PairedSample& sample : samples) {
    if (sample.worsening.empty()) continue;
    (sample.row.gated ? gated : others).push_back(&sample);
  }
  judge_gates(gated, options);
  explore(others, options);
  std::vector<StochasticRow> rows;
  for (PairedSample& sample : samples) rows.push_back(std::move(sample.row));
  return rows;
}

}  // namespace noisemark::reports
