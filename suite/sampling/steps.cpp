#include "suite/sampling/steps.h"

#include <ATen/ops/linspace.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "reports/error.h"
#include "reports/nearest.h"

namespace noisemark::suite {
namespace {

/// The schedule's buffers on the host, in float64.
class Schedule {
 public:
  explicit Schedule(const DiffusionProcess& process) : process_(process) {
    for (const auto& [name, buffer] : process.buffers()) {
      const at::Tensor host = buffer.to(at::kCPU, at::kDouble).contiguous();
      const double* values = host.const_data_ptr<double>();
      names_.emplace_back(name);
      values_.emplace_back(values, values + host.numel());
    }
  }

  [[nodiscard]] double value(std::string_view name, int64_t t) const {
    const auto found = std::find(names_.begin(), names_.end(), name);
    return values_.at(static_cast<size_t>(found - names_.begin())).at(static_cast<size_t>(t));
  }

  [[nodiscard]] int64_t timesteps() const { return process_.timesteps(); }

  /// A step at `t` that knows x0 and does not know yet what follows.
  [[nodiscard]] SamplerStep step_to_x0(int64_t t) const {
    SamplerStep step;
    step.t = t;
    const std::string& objective = process_.objective();
    if (objective == "x0") {
      step.x0_from_out = 1;
    } else if (objective == "v") {
      step.x0_from_x = value("sqrt_alphas_cumprod", t);
      step.x0_from_out = -value("sqrt_one_minus_alphas_cumprod", t);
    } else {
      step.x0_from_x = value("sqrt_recip_alphas_cumprod", t);
      step.x0_from_out = -value("sqrt_recipm1_alphas_cumprod", t);
    }
    return step;
  }

 private:
  const DiffusionProcess& process_;
  std::vector<std::string> names_;
  std::vector<std::vector<double>> values_;
};

using Deviation = double (*)(const Schedule& schedule, int64_t t);

double small_deviation(const Schedule& schedule, int64_t t) {
  return std::exp(0.5 * schedule.value("posterior_log_variance_clipped", t));
}

double large_deviation(const Schedule& schedule, int64_t t) {
  return std::sqrt(schedule.value("betas", t));
}

Deviation deviation_named(const std::string& variance) {
  if (variance == "small") return small_deviation;
  if (variance == "large") return large_deviation;
  const std::vector<std::string> accepted{"small", "large"};
  throw bad_input("sample.ddpm_variance", "", variance,
                  reports::accepted_names(variance, accepted));
}

std::vector<SamplerStep> ddpm_steps(const SampleConfig& config, const Schedule& schedule) {
  const Deviation deviation = deviation_named(config.ddpm_variance);
  std::vector<SamplerStep> steps;
  for (int64_t t = schedule.timesteps() - 1; t >= 0; --t) {
    SamplerStep step = schedule.step_to_x0(t);
    step.x_from_x0 = schedule.value("posterior_mean_coef1", t);
    step.x_from_x = schedule.value("posterior_mean_coef2", t);
    step.x_from_noise = t > 0 ? deviation(schedule, t) : 0;
    steps.push_back(step);
  }
  return steps;
}

// With r = sqrt(1 / a), m = sqrt(1 / a - 1), eps = (r x - x0) / m, the next sample is
//   sqrt(a') x0 + c eps + sigma noise = (sqrt(a') - c / m) x0 + (c r / m) x + sigma noise.
SamplerStep ddim_step(const Schedule& schedule, double eta, int64_t t, int64_t next) {
  SamplerStep step = schedule.step_to_x0(t);
  if (next < 0) {
    step.x_from_x0 = 1;
    return step;
  }
  const double a = schedule.value("alphas_cumprod", t);
  const double a_next = schedule.value("alphas_cumprod", next);
  const double sigma = eta * std::sqrt((1 - a / a_next) * (1 - a_next) / (1 - a));
  // Rounding must not take the root of a number just below 0.
  const double c = std::sqrt(std::max(0.0, 1 - a_next - sigma * sigma));
  const double share = c / schedule.value("sqrt_recipm1_alphas_cumprod", t);
  step.x_from_x0 = std::sqrt(a_next) - share;
  step.x_from_x = share * schedule.value("sqrt_recip_alphas_cumprod", t);
  step.x_from_noise = sigma;
  return step;
}

std::vector<SamplerStep> ddim_steps(const SampleConfig& config, const Schedule& schedule) {
  if (!(config.ddim_eta >= 0 && config.ddim_eta <= 1)) {
    throw bad_input("sample.ddim_eta", "", fmt::format("{}", config.ddim_eta),
                    "a number from 0 to 1");
  }
  const std::vector<int64_t> times = ddim_timesteps(schedule.timesteps(), config.ddim_steps);
  std::vector<SamplerStep> steps;
  for (size_t i = 0; i + 1 < times.size(); ++i) {
    steps.push_back(ddim_step(schedule, config.ddim_eta, times[i], times[i + 1]));
  }
  return steps;
}

}  // namespace

std::vector<int64_t> ddim_timesteps(int64_t timesteps, int64_t steps) {
  if (steps < 1 || steps > timesteps) {
    throw bad_input("sample.ddim_steps", "", std::to_string(steps),
                    fmt::format("an integer from 1 to {}, the timesteps", timesteps));
  }
  const at::Tensor grid = at::linspace(-1, timesteps - 1, steps + 1, at::kFloat).to(at::kLong);
  const int64_t* begin = grid.const_data_ptr<int64_t>();
  std::vector<int64_t> times(begin, begin + grid.numel());
  std::reverse(times.begin(), times.end());
  return times;
}

std::vector<SamplerStep> sampler_steps(const SampleConfig& config,
                                       const DiffusionProcess& process) {
  const Schedule schedule(process);
  if (config.sampler == "ddpm") return ddpm_steps(config, schedule);
  if (config.sampler == "ddim") return ddim_steps(config, schedule);
  const std::vector<std::string> accepted{"ddim", "ddpm"};
  throw bad_input("sample.sampler", "", config.sampler,
                  reports::accepted_names(config.sampler, accepted));
}

}  // namespace noisemark::suite
