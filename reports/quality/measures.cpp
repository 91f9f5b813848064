#include "reports/quality/measures.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "reports/gate.h"

namespace noisemark::reports {

const std::vector<Measure>& known_measures() {
  constexpr auto kRatio = DifferenceScale::kLogRatio;
  constexpr auto kDifference = DifferenceScale::kDifference;
  static const std::vector<Measure> table = {{"val_loss", 0.01, kRatio, 2},
                                             {"val_loss_weighted", 0.01, kRatio, 2},
                                             {"time_to_quality_s", 0.03, kRatio, 2},
                                             {"samples_to_quality", 0.10, kRatio, 2},
                                             {"fid", 0.05, kRatio, 5},
                                             {"kid", 0, kDifference, 2},
                                             {"cifarnet_distance", 0, kRatio, 2}};
  return table;
}

namespace {

/// A kernel distance is unbiased, so it may also be negative; a share may be none at all.
bool may_be_zero(const std::string& name) {
  return name.ends_with("_kernel_distance") || name.ends_with("_precision") ||
         name.ends_with("_recall");
}

}  // namespace

Measure measure_named(const std::string& name) {
  for (const Measure& measure : known_measures()) {
    if (measure.name == name) return measure;
  }
  Measure other;
  other.name = name;
  if (may_be_zero(name)) other.scale = DifferenceScale::kDifference;
  return other;
}

const std::vector<std::string>& described_measures() {
  static const std::vector<std::string> names = {"val_loss", "val_loss_weighted",
                                                 "time_to_quality_s", "samples_to_quality"};
  return names;
}

namespace {

using Spent = double (*)(const Evaluation&);

double elapsed_s(const Evaluation& evaluation) {
  return evaluation.elapsed_s;
}

double samples_seen(const Evaluation& evaluation) {
  return static_cast<double>(evaluation.samples_seen);
}

/// What a training had spent when its loss came to the target. `at_evaluation`: when that was seen.
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
  if (measure == "time_to_quality_s") {
    found.value = spent_at_target(result.quality, elapsed_s, *found.value);
  } else if (measure == "samples_to_quality") {
    found.value = spent_at_target(result.quality, samples_seen, *found.value);
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

namespace {

bool fails_gate(const Result& result, std::string_view name) {
  return std::any_of(result.gates.begin(), result.gates.end(), [&](const Gate& gate) {
    return gate.name == name && gate.verdict == Verdict::kFail;
  });
}

}  // namespace

std::optional<double> quality_key(const Result& result, const std::string& key) {
  const auto json = nlohmann::json::parse(result.definition, nullptr, false);
  if (!json.is_object() || !json.contains("quality")) return std::nullopt;
  const auto& section = json["quality"];
  if (!section.is_object() || !section.contains(key) || !section[key].is_number()) {
    return std::nullopt;
  }
  return section[key].get<double>();
}

std::optional<double> margin_in_definition(const Result& result, const std::string& measure) {
  return quality_key(result, measure + "_margin");
}

bool is_not_finite(const Result& result) {
  return fails_gate(result, "finite_loss");
}

bool has_no_plan(const Result& result) {
  return fails_gate(result, "plan");
}

bool same_weights(const Result& a, const Result& b) {
  const Determinism& x = a.determinism;
  const Determinism& y = b.determinism;
  return !x.weights_sha256.empty() && x.weights_sha256 == y.weights_sha256 &&
         x.ema_sha256 == y.ema_sha256;
}

}  // namespace noisemark::reports
