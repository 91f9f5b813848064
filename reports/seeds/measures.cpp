#include "reports/seeds/measures.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "reports/result/definition.h"
#include "reports/result/gate.h"
#include "reports/result/metrics.h"

namespace noisemark::reports {

const std::vector<Measure>& known_measures() {
  static const std::vector<Measure> measures = [] {
    std::vector<Measure> all;
    for (const MetricRow& row : metric_table()) {
      if (row.study) all.push_back(measure_named(std::string(row.name)));
    }
    return all;
  }();
  return measures;
}

Measure measure_named(const std::string& name) {
  Measure measure;
  measure.name = name;
  const MetricRow* row = find_metric_row(name);
  if (row == nullptr) return measure;
  if (row->may_be_zero) measure.scale = DifferenceScale::kDifference;
  if (!row->study) return measure;
  measure.margin = row->study->margin;
  measure.fewest_seeds = row->study->fewest_seeds;
  return measure;
}

std::vector<std::string> described_measures() {
  std::vector<std::string> names;
  for (const MetricRow& row : metric_table()) {
    if (row.study && row.study->described) names.emplace_back(row.name);
  }
  return names;
}

namespace {

using Spent = double (*)(const Evaluation&);

/// Returns what a training had spent when its loss came to the target. `at_evaluation`: when that
/// was seen.
double spent_at_target(const Quality& quality, Spent spent, double at_evaluation) {
  const std::vector<Evaluation>& all = quality.evaluations;
  const double target = quality.target_loss.value_or(0);
  const auto seen = std::find_if(all.begin(), all.end(),
                                 [&](const Evaluation& one) { return one.loss <= target; });
  if (seen == all.begin() || seen == all.end()) return at_evaluation;
  if (spent(*seen) != at_evaluation || !(seen->loss > 0)) return at_evaluation;
  const Evaluation& before = *(seen - 1);
  const double share = std::log(before.loss / target) / std::log(before.loss / seen->loss);
  return spent(before) + share * (spent(*seen) - spent(before));
}

}  // namespace

Observation observe(const Result& result, const std::string& measure) {
  const Metric* metric = find_metric(result, measure);
  if (metric == nullptr) return {{}, "not measured", "", Direction::kLower};
  const std::string& reason = metric->missing_reason;
  Observation found = {metric->value, reason.empty() ? "not measured" : reason, metric->unit,
                       metric->direction};
  if (!found.value) return found;
  const MetricRow* row = find_metric_row(measure);
  if (row != nullptr && row->study && row->study->spent != nullptr) {
    found.value = spent_at_target(result.quality, row->study->spent, *found.value);
  }
  return found;
}

Observation observe_loss_at(const Result& result, int64_t timestep) {
  const std::vector<int64_t> all = evaluated_timesteps(result);
  const auto at = std::find(all.begin(), all.end(), timestep);
  if (at == all.end()) return {{}, "not evaluated", "1", Direction::kLower};
  const auto index = static_cast<size_t>(at - all.begin());
  return {result.quality.evaluations.back().per_timestep[index], "", "1", Direction::kLower};
}

std::vector<int64_t> evaluated_timesteps(const Result& result) {
  if (result.quality.evaluations.empty()) return {};
  const Evaluation& last = result.quality.evaluations.back();
  std::vector<int64_t> timesteps = last.timesteps;
  timesteps.resize(std::min(timesteps.size(), last.per_timestep.size()));
  return timesteps;
}

std::optional<double> margin_in_definition(const Result& result, const std::string& measure) {
  const DefinitionView definition = definition_of(result);
  const auto found = definition.quality_bounds.find(measure + "_margin");
  if (found == definition.quality_bounds.end()) return std::nullopt;
  return found->second;
}

bool is_not_finite(const Result& result) {
  return fails_gate(result, kFiniteLossGate);
}

bool has_no_plan(const Result& result) {
  return fails_gate(result, kPlanGate);
}

bool same_weights(const Result& a, const Result& b) {
  const Determinism& x = a.determinism;
  const Determinism& y = b.determinism;
  return !x.weights_sha256.empty() && x.weights_sha256 == y.weights_sha256 &&
         x.ema_sha256 == y.ema_sha256;
}

}  // namespace noisemark::reports
