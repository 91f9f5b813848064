#include "reports/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <tuple>
#include <vector>

#include "reports/base/statistics.h"
#include "reports/compare/evidence.h"
#include "reports/compare/inference.h"
#include "reports/result/environment_changes.h"
#include "reports/result/gate.h"
#include "reports/result/metrics.h"

namespace noisemark::reports {
namespace {

/// Counts how often the other side comes next. Runs of one second are taken in the order of their
/// pairs.
size_t changes_of_side(const Cell& cell) {
  std::vector<std::tuple<std::string, size_t, bool>> runs;
  for (size_t i = 0; i < cell.pairs.size(); ++i) {
    runs.emplace_back(cell.pairs[i].first->result.created_utc, i, false);
    runs.emplace_back(cell.pairs[i].second->result.created_utc, i, true);
  }
  std::sort(runs.begin(), runs.end());
  size_t changes = 0;
  for (size_t i = 1; i < runs.size(); ++i) {
    changes += std::get<2>(runs[i]) != std::get<2>(runs[i - 1]) ? 1 : 0;
  }
  return changes;
}

/// An idle device is not slowed down: what it says after training counts as well.
bool slowed_down(const Result& result) {
  return !slow_downs(result.environment).empty();
}

/// "3 of 8 runs of NEW WORDS" for the first side of which more than `most_frac` are so.
std::string too_many(const Cell& cell, double most_frac, const char* words,
                     const std::function<bool(const Result&)>& is_so) {
  for (const bool base : {true, false}) {
    const auto count = std::count_if(
        cell.pairs.begin(), cell.pairs.end(),
        [&](const RunPair& pair) { return is_so((base ? pair.first : pair.second)->result); });
    if (static_cast<double>(count) <= most_frac * static_cast<double>(cell.pairs.size())) continue;
    return fmt::format("{} of {} runs of {} {}", count, cell.pairs.size(), base ? "BASE" : "NEW",
                       words);
  }
  return "";
}

/// Says how the runs were timed. They count as made in turns if, in the order of their creation,
/// the side changes at least once per pair, as it does in ABBA. A minority of runs that never
/// became steady moves no median and is left to the noise. The device slows itself down when it is
/// too hot or short of power; a cap on its power is how it always runs and does not count.
TimingConditions timing_conditions(const Cell& cell) {
  TimingConditions conditions;
  conditions.stored = changes_of_side(cell) < cell.pairs.size();
  conditions.unsteady = too_many(cell, 0.5, "never became steady", [](const Result& result) {
    return !result.protocol.warmup_stable;
  });
  conditions.throttled =
      too_many(cell, kMostThrottledFrac, "saw the device slow itself down", slowed_down);
  return conditions;
}

constexpr int64_t kExploratoryResamples = 1000;

/// The row of a gated metric, else nullptr.
const MetricRow* gate_of(const std::string& metric) {
  const MetricRow* row = find_metric_row(metric);
  return row != nullptr && row->rule == MetricRule::kGated ? row : nullptr;
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

/// The values of a metric in the runs of one side.
struct Column {
  std::vector<double> values;
  std::set<std::string> units;
  std::set<Direction> directions;
  size_t missing = 0;
  size_t not_positive = 0;
  std::string reason;  ///< last reason given for a missing value
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
    decide(row, CompareVerdict::kIncomplete, "no longer measured");
  } else if (base.units != candidate.units || base.units.size() > 1) {
    conflict(row, "the units differ");
  } else if (base.directions != candidate.directions || base.directions.size() > 1) {
    conflict(row, "the directions differ");
  } else if (base.not_positive > 0) {
    decide(row, CompareVerdict::kCalibrationNeeded, "the base is zero or negative");
  } else if (candidate.not_positive > 0) {
    decide(row, CompareVerdict::kIncomplete, "zero or negative");
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
  const MetricRow* gate = options.gates ? gate_of(name) : nullptr;
  if (gate != nullptr) {
    const Noise noise = noise_of(cell, name, options);
    row.gated = true;
    row.noise_floor_frac = noise.floor_frac;
    row.session_deviation = noise.session_deviation;
    row.margin_frac = std::max(gate->gate_margin_frac, 2 * row.noise_floor_frac);
  }
  if (unusable(row, base, candidate)) return sample;
  const std::vector<double> ratios = log_ratios(base.values, candidate.values);
  const double ratio = std::exp(hodges_lehmann(ratios));
  if (!std::isnormal(ratio)) {
    decide(row, CompareVerdict::kIncomplete, "the ratio is beyond all numbers");
    return sample;
  }
  row.ratio = ratio;
  sample.worsening = ratios;
  if (row.direction == Direction::kHigher) {
    for (double& value : sample.worsening) value = -value;
  }
  if (gate != nullptr && gate->cause == MetricCause::kMachine)
    sample.timing = timing_conditions(cell);
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
    const MetricRow* gate = gate_of(sample.row.metric);
    const bool quality = gate != nullptr && gate->cause == MetricCause::kModel;
    if (quality && sample.row.verdict == CompareVerdict::kRegression) {
      sample.row.verdict = CompareVerdict::kQualityFail;
    }
    rows.push_back(std::move(sample.row));
  }
  return rows;
}

}  // namespace noisemark::reports
