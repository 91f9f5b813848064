#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "suite/config/definition.h"
#include "suite/diffusion/process.h"

/// The samplers as numbers. Both are one update repeated with other coefficients, so that the loop
/// that runs them computes nothing but the network and this update.

namespace noisemark::suite {

/// One evaluation of the network and the update after it. With `out`, its output at timestep t,
///   x0 = clamp(x0_from_x x + x0_from_out out, -1, 1)
///   x  = x_from_x0 x0 + x_from_x x + x_from_noise noise.
struct SamplerStep {
  int64_t t = 0;
  double x0_from_x = 0;
  double x0_from_out = 0;
  double x_from_x0 = 0;
  double x_from_x = 0;
  double x_from_noise = 0;  ///< 0: no noise is drawn
};

/// A step of DDIM: the network sees the sample at `t`, and the sample goes on to `next`. There -1
/// stands for x0.
struct DdimTimes {
  int64_t t = 0;
  int64_t next = -1;
};

/// The timesteps of DDIM, descending, `steps` of them.
///   lucid     denoising-diffusion-pytorch's grid int(linspace(-1, T - 1, steps + 1)), in float32
///   as
///             there; every step leads to the timestep of the one that follows.
///   trailing  diffusers' DDIMScheduler with timestep_spacing="trailing": round(T - i T / steps) -
///   1,
///             without the -1 that rounding adds there for some numbers of steps. As there, a step
///             leads to t - T div steps, which is the following timestep only where `steps` divides
///             T.
/// They are the same where `steps` divides T. Throws Error (exit code 2) for another grid, and
/// unless 1 <= steps <= timesteps.
[[nodiscard]] std::vector<DdimTimes> ddim_timesteps(const std::string& grid, int64_t timesteps,
                                                    int64_t steps);

/// Every step of `config.sampler`, in the order in which they are made, for what the process's
/// network predicts (eps, x0 or v).
///   ddpm  Ho et al. 2020, algorithm 2 and section 3.2: all T steps, x0 clamped, the mean of
///         q(x_{t-1} | x_t, x0); variance of the noise "small": that of the posterior, bounded by
///         1e-20 (denoising-diffusion-pytorch's p_sample); "large": beta_t; none at t = 0.
///   ddim  Song et al. 2021, equations 12 and 16: eps is derived again from the clamped x0, and the
///         last step gives x0 (denoising-diffusion-pytorch's ddim_sample).
/// It is computed in float64 from the process's buffers. Throws Error (exit code 2) for another
/// sampler, grid or variance, more DDIM steps than timesteps, or an eta outside [0, 1].
[[nodiscard]] std::vector<SamplerStep> sampler_steps(const SampleConfig& config,
                                                     const DiffusionProcess& process);

/// The update of one step, in place of `x` [N, C, H, W]. `out` is the network's output and `noise`
/// standard normals, both of x's shape and type; `noise` may be undefined where the step has none.
/// One pass over memory on a CPU where all three lie in one order, row-major or NHWC. Every value
/// depends on its own place only, so batches may be split at will. NaN stays NaN.
void update_sample(const SamplerStep& step, const at::Tensor& out, const at::Tensor& noise,
                   const at::Tensor& x);

}  // namespace noisemark::suite
