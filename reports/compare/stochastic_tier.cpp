#include "reports/compare/stochastic_tier.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "reports/compare/exact_tier.h"
#include "reports/compare/multiplicity.h"
#include "reports/compare/paired_estimate.h"
#include "reports/compare/paired_gate.h"
#include "reports/compare/signed_rank.h"
#include "reports/compare/timing_conditions.h"
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
  std::string reason;  ///< of the last that is missing
};

Column column_of(const Cell& cell, const std::string& name, bool base) {
  Column column;
  for (const RunPair& pair : cell.pairs) {
    const Metric* metric = find_metric((base ? pair.first : pair.second)->result, name);
    if (metric == nullptr || !metric->value) {
      ++column.missing;
      if (metric != nullptr) column.reason = metric->missing_reason;
      continue;
    }
    column.units.insert(metric->unit);
    column.directions.insert(metric->direction);
    column.values.push_back(*metric->value);
    column.not_positive += *metric->value > 0 ? 0 : 1;
  }
  return column;
}

void conflict(StochasticRow& row, const std::string& words) {
  row.conflict = true;
  decide(row, CompareVerdict::kNotComparable, words);
}

/// Judges a row whose figures cannot be compared; true when it did.
bool unusable(StochasticRow& row, const Column& base, const Column& candidate) {
  if (base.values.empty() && candidate.values.empty()) {
    decide(row, CompareVerdict::kCalibrationNeeded,
           "measured on neither side" + (base.reason.empty() ? "" : ": " + base.reason));
  } else if (base.missing > 0) {
    decide(row, CompareVerdict::kCalibrationNeeded, "the base has no value");
  } else if (candidate.missing > 0) {
    decide(row, CompareVerdict::kInfraError, "no longer measured");
  } else if (base.units != candidate.units || base.units.size() > 1) {
    conflict(row, "the units differ");
  } else if (base.directions != candidate.directions || base.directions.size() > 1) {
    conflict(row, "the directions differ");
  } else if (base.not_positive > 0) {
    decide(row, CompareVerdict::kCalibrationNeeded, "the base is zero or negative");
  } else if (candidate.not_positive > 0) {
    decide(row, CompareVerdict::kInfraError, "zero or negative");
  } else {
    return false;
  }
  return true;
}

/// Logarithms of both sides, positive where worse.
TwoSamples worsening_sides(const StochasticRow& row, const Column& base, const Column& candidate) {
  const double sign = row.direction == Direction::kHigher ? -1 : 1;
  TwoSamples sides;
  for (const double value : base.values) sides.base.push_back(sign * std::log(value));
  for (const double value : candidate.values) sides.candidate.push_back(sign * std::log(value));
  return sides;
}

Noise noise_of(const Cell& cell, const std::string& name, const StochasticOptions& options) {
  auto found = options.noise.find(cell.name + ": " + name);
  if (found == options.noise.end()) found = options.noise.find(name);
  return found == options.noise.end() ? Noise{} : found->second;
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
  const GatedMetric* gate = options.gates ? gate_of(name) : nullptr;
  if (gate != nullptr) {
    const Noise noise = noise_of(cell, name, options);
    row.gated = true;
    row.noise_floor_frac = noise.floor_frac;
    row.session_deviation = noise.session_deviation;
    row.margin_frac = std::max(gate->margin_frac, 2 * row.noise_floor_frac);
  }
  if (unusable(row, base, candidate)) return sample;
  const std::vector<double> ratios = log_ratios(base.values, candidate.values);
  row.ratio = std::exp(hodges_lehmann(ratios));
  sample.worsening = ratios;
  if (row.direction == Direction::kHigher) {
    for (double& value : sample.worsening) value = -value;
  }
  if (gate != nullptr && gate->of_time) sample.timing = timing_conditions(cell);
  row.stored = sample.timing.stored;
  if (row.stored) sample.sides = worsening_sides(row, base, candidate);
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
  static const std::vector<GatedMetric> table = {{"images_per_s", 0.03, true},
                                                 {"val_loss", 0.01, false}};
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
  for (PairedSample& sample : samples) {
    const bool quality = sample.row.metric == "val_loss";
    if (quality && sample.row.verdict == CompareVerdict::kRegression) {
      sample.row.verdict = CompareVerdict::kQualityFail;
    }
    rows.push_back(std::move(sample.row));
  }
  return rows;
}

}  // namespace noisemark::reports
