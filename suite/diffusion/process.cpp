#include "suite/diffusion/process.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/mse_loss.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <array>
#include <numbers>

#include "reports/base/error.h"

namespace noisemark::suite {
namespace {

constexpr double kLargestBeta = 0.999;

at::TensorOptions double_cpu() {
  return at::TensorOptions().dtype(at::kDouble);
}

at::Tensor linear_betas(int64_t timesteps) {
  const double scale = 1000.0 / static_cast<double>(timesteps);
  return at::linspace(scale * 0.0001, scale * 0.02, timesteps, double_cpu());
}

// 0, 1/T, ..., 1
at::Tensor unit_times(int64_t timesteps) {
  return at::linspace(0, timesteps, timesteps + 1, double_cpu()) / timesteps;
}

at::Tensor betas_of(const at::Tensor& unscaled_alphas_cumprod) {
  const at::Tensor alphas_cumprod = unscaled_alphas_cumprod / unscaled_alphas_cumprod[0];
  const at::Tensor betas = 1 - alphas_cumprod.slice(0, 1) / alphas_cumprod.slice(0, 0, -1);
  return betas.clip(0, kLargestBeta);
}

at::Tensor cosine_betas(int64_t timesteps) {
  constexpr double kOffset = 0.008;
  const at::Tensor t = unit_times(timesteps);
  return betas_of(at::pow(at::cos((t + kOffset) / (1 + kOffset) * std::numbers::pi * 0.5), 2));
}

at::Tensor sigmoid_betas(int64_t timesteps) {
  constexpr double kStart = -3;
  constexpr double kEnd = 3;
  const at::Tensor t = unit_times(timesteps);
  // The peer leaves the two end points in float32, and so must we.
  const at::Tensor first = at::scalar_tensor(kStart, at::kFloat).sigmoid();
  const at::Tensor last = at::scalar_tensor(kEnd, at::kFloat).sigmoid();
  return betas_of((-(t * (kEnd - kStart) + kStart).sigmoid() + last) / (last - first));
}

struct ScheduleEntry {
  std::string_view name;
  at::Tensor (*betas)(int64_t timesteps);
};

constexpr std::array kSchedules{
    ScheduleEntry{"linear", linear_betas},
    ScheduleEntry{"cosine", cosine_betas},
    ScheduleEntry{"sigmoid", sigmoid_betas},
};

at::Tensor loss_weight(const DiffusionConfig& config, const at::Tensor& snr) {
  const at::Tensor clipped = config.min_snr ? snr.clamp_max(config.min_snr_gamma) : snr;
  if (config.objective == "eps") return clipped / snr;
  if (config.objective == "x0") return clipped;
  if (config.objective == "v") return clipped / (snr + 1);
  const std::vector<std::string> accepted{"eps", "x0", "v"};
  throw bad_input("diffusion.objective", "", config.objective,
                  reports::accepted_names(config.objective, accepted));
}

}  // namespace

at::Tensor make_betas(const std::string& schedule, int64_t timesteps) {
  if (timesteps < 1) {
    throw bad_input("diffusion.timesteps", "", fmt::format("{}", timesteps),
                    "an integer of at least 1");
  }
  std::vector<std::string> accepted;
  for (const ScheduleEntry& entry : kSchedules) {
    if (entry.name == schedule) return entry.betas(timesteps);
    accepted.emplace_back(entry.name);
  }
  throw bad_input("diffusion.schedule", "", schedule, reports::accepted_names(schedule, accepted));
}

std::vector<std::pair<std::string, at::Tensor>> make_schedule_buffers(
    const DiffusionConfig& config) {
  if (!(config.min_snr_gamma > 0)) {
    throw bad_input("diffusion.min_snr_gamma", "", fmt::format("{}", config.min_snr_gamma),
                    "more than 0");
  }
  const at::Tensor betas = make_betas(config.schedule, config.timesteps);
  const at::Tensor alphas = 1. - betas;
  const at::Tensor cumprod = alphas.cumprod(0);
  const at::Tensor previous = at::constant_pad_nd(cumprod.slice(0, 0, -1), {1, 0}, 1.);
  const at::Tensor variance = betas * (1. - previous) / (1. - cumprod);
  const at::Tensor snr = cumprod / (1 - cumprod);

  std::vector<std::pair<std::string, at::Tensor>> buffers{
      {"betas", betas},
      {"alphas_cumprod", cumprod},
      {"alphas_cumprod_prev", previous},
      {"sqrt_alphas_cumprod", cumprod.sqrt()},
      {"sqrt_one_minus_alphas_cumprod", (1. - cumprod).sqrt()},
      {"log_one_minus_alphas_cumprod", (1. - cumprod).log()},
      {"sqrt_recip_alphas_cumprod", cumprod.reciprocal().sqrt()},
      {"sqrt_recipm1_alphas_cumprod", (cumprod.reciprocal() - 1).sqrt()},
      {"posterior_variance", variance},
      {"posterior_log_variance_clipped", variance.clamp_min(1e-20).log()},
      {"posterior_mean_coef1", betas * previous.sqrt() / (1. - cumprod)},
      {"posterior_mean_coef2", (1. - previous) * alphas.sqrt() / (1. - cumprod)},
      {"loss_weight", loss_weight(config, snr)},
  };
  for (auto& [name, buffer] : buffers) buffer = buffer.to(at::kFloat);
  return buffers;
}

namespace {

// values[t], shaped so that it multiplies [N, C, H, W]
at::Tensor at_timesteps(const at::Tensor& values, const at::Tensor& t) {
  return values.gather(-1, t).reshape({-1, 1, 1, 1});
}

}  // namespace

DiffusionProcess::DiffusionProcess(const DiffusionConfig& config, at::Device device,
                                   at::ScalarType dtype)
    : timesteps_(config.timesteps),
      objective_(config.objective),
      buffers_(make_schedule_buffers(config)) {
  for (auto& [name, buffer] : buffers_) buffer = buffer.to(device, dtype);
}

const at::Tensor& DiffusionProcess::buffer(std::string_view name) const {
  for (const auto& [candidate, values] : buffers_) {
    if (candidate == name) return values;
  }
  TORCH_CHECK(false, "no schedule buffer is named ", name);
}

at::Tensor DiffusionProcess::q_sample(const at::Tensor& x0, const at::Tensor& t,
                                      const at::Tensor& noise) const {
  return at_timesteps(buffer("sqrt_alphas_cumprod"), t) * x0 +
         at_timesteps(buffer("sqrt_one_minus_alphas_cumprod"), t) * noise;
}

at::Tensor DiffusionProcess::target(const at::Tensor& x0, const at::Tensor& t,
                                    const at::Tensor& noise) const {
  if (objective_ == "eps") return noise;
  if (objective_ == "x0") return x0;
  return at_timesteps(buffer("sqrt_alphas_cumprod"), t) * noise -
         at_timesteps(buffer("sqrt_one_minus_alphas_cumprod"), t) * x0;
}

at::Tensor DiffusionProcess::training_loss(const at::Tensor& prediction, const at::Tensor& target,
                                           const at::Tensor& t) const {
  const at::Tensor squared = at::mse_loss(prediction, target, at::Reduction::None);
  return (squared.mean({1, 2, 3}) * loss_weights(t)).mean();
}

at::Tensor DiffusionProcess::sample_losses(const at::Tensor& prediction,
                                           const at::Tensor& target) const {
  return (prediction.to(at::kDouble) - target.to(at::kDouble)).square().mean({1, 2, 3});
}

at::Tensor DiffusionProcess::loss_weights(const at::Tensor& t) const {
  return buffer("loss_weight").gather(-1, t);
}

}  // namespace noisemark::suite
