#include "tests/reports/seeds/seeds.h"

#include <fmt/format.h>

#include <functional>

#include "reports/base/sha256.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports::test {
namespace {

void set_loss(Result& result, double loss) {
  Evaluation& last = result.quality.evaluations.back();
  const double factor = loss / last.loss;
  for (Evaluation& one : result.quality.evaluations) one.elapsed_s *= factor;
  last.loss = loss;
  last.weighted_loss = loss;
  for (double& one : last.per_timestep) one *= factor;
  const auto exact = [](const std::string& name, const std::string& unit, double value) {
    return Metric{name, unit, Direction::kLower, value, "", "exact", {}, 1, ""};
  };
  std::erase_if(result.metrics, [](const Metric& metric) { return metric.name == "val_loss"; });
  result.metrics.push_back(exact("val_loss", "1", loss));
  result.metrics.push_back(exact("val_loss_weighted", "1", loss));
  // The last evaluation reaches it, and not the one before: 0.21.
  result.quality.target_loss = 0.15;
  result.quality.time_to_quality_s = last.elapsed_s;
  result.quality.samples_to_quality = last.samples_seen;
  result.metrics.push_back(exact("time_to_quality_s", "s", last.elapsed_s));
  result.metrics.push_back(
      exact("samples_to_quality", "images", static_cast<double>(last.samples_seen)));
}

}  // namespace

std::vector<NamedResult> seeds_of(const std::string& mode, const std::vector<double>& losses,
                                  const ChangeSeed& change) {
  std::vector<NamedResult> runs;
  for (size_t seed = 0; seed < losses.size(); ++seed) {
    Result result = full_result();
    result.run_id = sha256_of(fmt::format("{} {}", mode, seed)).substr(0, 16);
    result.created_utc = fmt::format("2026-01-02T03:04:{:02}Z", seed);
    result.exit = {0, "pass", {}};
    result.identity.mode = mode;
    result.repeat_command = fmt::format("noisemark run ho-cifar10@cpu --mode {}", mode);
    result.seeds.base = seed;
    result.provenance.git_dirty = false;
    result.provenance.init_weights_sha256 = sha256_of(fmt::format("begin {}", seed));
    result.determinism.weights_sha256 = sha256_of(fmt::format("{} end {}", mode, seed));
    result.determinism.ema_sha256 = sha256_of(fmt::format("{} average {}", mode, seed));
    set_loss(result, losses[seed]);
    if (change) change(result, seed);
    runs.push_back({fmt::format("{}-seed{}", mode, seed), std::move(result)});
  }
  return runs;
}

Side together(const std::vector<std::vector<NamedResult>>& modes) {
  Side side{"results", {}};
  for (const auto& runs : modes) side.runs.insert(side.runs.end(), runs.begin(), runs.end());
  return side;
}

std::vector<double> losses_of_none(size_t count) {
  std::vector<double> losses;
  for (size_t i = 0; i < count; ++i) {
    losses.push_back(0.1 * (1 + 0.02 * (static_cast<double>(i * 5 % 7) / 3 - 1)));
  }
  return losses;
}

std::vector<double> worse_by(double frac, double spread, const std::vector<double>& losses) {
  std::vector<double> worse;
  const auto count = static_cast<double>(losses.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    const double share = 2 * static_cast<double>(i) / (count - 1) - 1;
    worse.push_back(losses[i] * (1 + frac + spread * share));
  }
  return worse;
}

}  // namespace noisemark::reports::test
