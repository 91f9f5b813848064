#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "suite/config/definition.h"

namespace noisemark::suite {

/// The noise schedule: betas [T], float64 on the CPU, rounded exactly as the peer rounds them.
///   linear   Ho et al. 2020, section 4, stretched to T steps
///   cosine   Nichol & Dhariwal 2021, equation 17, s = 0.008
///   sigmoid  Jabri et al. 2022, from -3 to 3, tau = 1
/// Throws Error (exit code 2) for another name or T < 1.
[[nodiscard]] at::Tensor make_betas(const std::string& schedule, int64_t timesteps);

/// The 13 buffers of the peer's GaussianDiffusion, in its order: computed in float64, rounded to
/// float32, on the CPU. Throws Error (exit code 2) for an unknown schedule or objective, or a gamma
/// that is not positive.
[[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> make_schedule_buffers(
    const DiffusionConfig& config);

/// The forward diffusion process and its training loss, as denoising-diffusion-pytorch's
/// GaussianDiffusion computes them (Ho et al. 2020; v objective: Salimans & Ho 2022; min-SNR: Hang
/// et al. 2023).
class DiffusionProcess {
 public:
  /// Buffers are computed in float64, rounded to float32, then moved to `device` and cast to
  /// `dtype`.
  DiffusionProcess(const DiffusionConfig& config, at::Device device,
                   at::ScalarType dtype = at::kFloat);

  /// x0, noise [N, C, H, W], t [N] int64 -> x_t of the same shape.
  [[nodiscard]] at::Tensor q_sample(const at::Tensor& x0, const at::Tensor& t,
                                    const at::Tensor& noise) const;
  /// Returns what the network should predict: noise, x0 or v.
  [[nodiscard]] at::Tensor target(const at::Tensor& x0, const at::Tensor& t,
                                  const at::Tensor& noise) const;
  /// A scalar: squared error, mean over pixels, times loss_weight[t], mean over samples.
  [[nodiscard]] at::Tensor training_loss(const at::Tensor& prediction, const at::Tensor& target,
                                         const at::Tensor& t) const;
  /// [N]: squared error, mean over pixels, not weighted, float64.
  [[nodiscard]] at::Tensor sample_losses(const at::Tensor& prediction,
                                         const at::Tensor& target) const;
  /// [N]: loss_weight[t].
  [[nodiscard]] at::Tensor loss_weights(const at::Tensor& t) const;

  [[nodiscard]] int64_t timesteps() const { return timesteps_; }
  /// Names what the network predicts: "eps", "x0" or "v".
  [[nodiscard]] const std::string& objective() const { return objective_; }
  /// The 13 schedule buffers under the peer's names, in the peer's order.
  [[nodiscard]] const std::vector<std::pair<std::string, at::Tensor>>& buffers() const {
    return buffers_;
  }
  /// One buffer by name; a programming error if there is none.
  [[nodiscard]] const at::Tensor& buffer(std::string_view name) const;

 private:
  int64_t timesteps_;
  std::string objective_;
  std::vector<std::pair<std::string, at::Tensor>> buffers_;
};

}  // namespace noisemark::suite
