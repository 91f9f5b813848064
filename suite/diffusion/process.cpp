#include "suite/diffusion/process.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/mse_loss.h>
#include <c10/util/Exception.h>

#include "suite/diffusion/schedule.h"

namespace noisemark::suite {
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
