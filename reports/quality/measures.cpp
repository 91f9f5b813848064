#include "reports/quality/measures.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "reports/error.h"
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
                                             {"kid", 0, kDifference, 2}};
  return table;
}

Measure measure_named(const std::string& name) {
  for (const Measure& measure : known_measures()) {
    if (measure.name == name) return measure;
  }
  Measure other;
  other.name = name;
  return other;
}

const std::vector<std::string>& described_measures() {
  static const std::vector<std::string> names = {"val_loss", "val_loss_weighted",
                                                 "time_to_quality_s", "samples_to_quality"};
  return names;
}

Observation observe(const Result& result, const std::string& measure) {
  const Metric* metric = find_metric(result, measure);
  if (metric == nullptr) return {{}, "not measured", "", Direction::kLower};
  const std::string& reason = metric->missing_reason;
  return {metric->value, reason.empty() ? "not measured" : reason, metric->unit, metric->direction};
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

constexpr double kGradientErrorBound = 0.7;

/// A number of the definition's section [quality].
std::optional<double> quality_key(const Result& result, const std::string& key) {
  const auto json = nlohmann::json::parse(result.definition, nullptr, false);
  if (!json.is_object() || !json.contains("quality")) return std::nullopt;
  const auto& section = json["quality"];
  if (!section.is_object() || !section.contains(key) || !section[key].is_number()) {
    return std::nullopt;
  }
  return section[key].get<double>();
}

bool fails_gate(const Result& result, std::string_view name) {
  return std::any_of(result.gates.begin(), result.gates.end(), [&](const Gate& gate) {
    return gate.name == name && gate.verdict == Verdict::kFail;
  });
}

}  // namespace

std::optional<double> margin_in_definition(const Result& result, const std::string& measure) {
  return quality_key(result, measure + "_margin");
}

double gradient_error_bound(const Result& result) {
  return quality_key(result, "gradient_error_max").value_or(kGradientErrorBound);
}

bool is_finished(const Result& result) {
  if (result.exit.code == static_cast<int>(ExitCode::kPass)) return true;
  // What threw before the gates has the exit code of a failed one too.
  return result.exit.code == static_cast<int>(ExitCode::kFailed) && !result.gates.empty();
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
