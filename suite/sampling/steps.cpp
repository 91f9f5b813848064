#include "suite/sampling/steps.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/linspace.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "reports/base/error.h"

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
  std::vector<SamplerStep> steps;
  for (const auto& [t, next] :
       ddim_timesteps(config.grid, schedule.timesteps(), config.ddim_steps)) {
    steps.push_back(ddim_step(schedule, config.ddim_eta, t, next));
  }
  return steps;
}

std::vector<DdimTimes> lucid_times(int64_t timesteps, int64_t steps) {
  const at::Tensor grid = at::linspace(-1, timesteps - 1, steps + 1, at::kFloat).to(at::kLong);
  const int64_t* times = grid.const_data_ptr<int64_t>();
  std::vector<DdimTimes> all;
  for (int64_t i = steps; i > 0; --i) all.push_back({times[i], times[i - 1]});
  return all;
}

std::vector<DdimTimes> trailing_times(int64_t timesteps, int64_t steps) {
  const auto first = static_cast<double>(timesteps);
  // numpy's arange adds up the difference of its first two values, which were rounded.
  const double change = (first - first / static_cast<double>(steps)) - first;
  const int64_t stride = timesteps / steps;
  std::vector<DdimTimes> all;
  for (int64_t i = 0; i < steps; ++i) {
    const auto t =
        static_cast<int64_t>(std::nearbyint(first + static_cast<double>(i) * change)) - 1;
    all.push_back({t, std::max<int64_t>(t - stride, -1)});
  }
  return all;
}

}  // namespace

std::vector<DdimTimes> ddim_timesteps(const std::string& grid, int64_t timesteps, int64_t steps) {
  if (steps < 1 || steps > timesteps) {
    throw bad_input("sample.ddim_steps", "", std::to_string(steps),
                    fmt::format("an integer from 1 to {}, the timesteps", timesteps));
  }
  if (grid == "lucid") return lucid_times(timesteps, steps);
  if (grid == "trailing") return trailing_times(timesteps, steps);
  const std::vector<std::string> accepted{"lucid", "trailing"};
  throw bad_input("sample.grid", "", grid, reports::accepted_names(grid, accepted));
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

namespace {

constexpr int64_t kGrain = 16384;  // values of a thread's share, at least

template <typename T>
struct Coefficients {
  explicit Coefficients(const SamplerStep& step)
      : x0_from_x(static_cast<T>(step.x0_from_x)),
        x0_from_out(static_cast<T>(step.x0_from_out)),
        x_from_x0(static_cast<T>(step.x_from_x0)),
        x_from_x(static_cast<T>(step.x_from_x)),
        x_from_noise(static_cast<T>(step.x_from_noise)) {}
  T x0_from_x, x0_from_out, x_from_x0, x_from_x, x_from_noise;
};

/// The update without noise: the mean of what follows. Comparisons that are false for NaN keep it.
template <typename T>
T mean_of_next(const Coefficients<T>& k, T out, T x) {
  T x0 = k.x0_from_x * x + k.x0_from_out * out;
  x0 = x0 < T{-1} ? T{-1} : x0;
  x0 = x0 > T{1} ? T{1} : x0;
  return k.x_from_x0 * x0 + k.x_from_x * x;
}

template <typename T>
void update_flat(const SamplerStep& step, const at::Tensor& out, const at::Tensor& noise,
                 const at::Tensor& x) {
  const Coefficients<T> k(step);
  const T* const outs = out.const_data_ptr<T>();
  const T* const noises = noise.defined() ? noise.const_data_ptr<T>() : nullptr;
  T* const xs = x.mutable_data_ptr<T>();
  at::parallel_for(0, x.numel(), kGrain, [&](int64_t begin, int64_t end) {
    if (noises == nullptr) {
      for (int64_t i = begin; i < end; ++i) xs[i] = mean_of_next(k, outs[i], xs[i]);
    } else {
      for (int64_t i = begin; i < end; ++i) {
        xs[i] = mean_of_next(k, outs[i], xs[i]) + k.x_from_noise * noises[i];
      }
    }
  });
}

void update_anywhere(const SamplerStep& step, const at::Tensor& out, const at::Tensor& noise,
                     const at::Tensor& x) {
  const at::Tensor x0 = out.mul(step.x0_from_out).add_(x, step.x0_from_x).clamp_(-1, 1);
  x.mul_(step.x_from_x).add_(x0, step.x_from_x0);
  if (noise.defined()) x.add_(noise, step.x_from_noise);
}

bool in_order(const at::Tensor& tensor, at::MemoryFormat order) {
  return !tensor.defined() || (tensor.device().is_cpu() && tensor.is_contiguous(order));
}

bool in_one_order(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
  for (const at::MemoryFormat order :
       {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    if (in_order(a, order) && in_order(b, order) && in_order(c, order)) return true;
  }
  return false;
}

}  // namespace

void update_sample(const SamplerStep& step, const at::Tensor& out, const at::Tensor& noise,
                   const at::Tensor& x) {
  const at::Tensor used = step.x_from_noise == 0 ? at::Tensor() : noise;
  TORCH_CHECK(step.x_from_noise == 0 || used.defined(), "the step at t = ", step.t, " needs noise");
  TORCH_CHECK(out.sizes() == x.sizes() && (!used.defined() || used.sizes() == x.sizes()),
              "x has the shape ", x.sizes(), ", the network's output ", out.sizes());
  const at::ScalarType type = x.scalar_type();
  const bool one_type =
      out.scalar_type() == type && (!used.defined() || used.scalar_type() == type);
  if (one_type && type == at::kFloat && in_one_order(out, used, x)) {
    update_flat<float>(step, out, used, x);
  } else if (one_type && type == at::kDouble && in_one_order(out, used, x)) {
    update_flat<double>(step, out, used, x);
  } else {
    update_anywhere(step, out.to(type), used, x);
  }
}

}  // namespace noisemark::suite
