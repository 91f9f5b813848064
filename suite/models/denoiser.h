#pragma once

#include <torch/nn/module.h>

#include <memory>

#include "baselines/ops.h"
#include "suite/config/definition.h"

namespace noisemark::suite {

/// The network that predicts noise (or x0, or v). Parameter names are the peers' state dict keys,
/// and constructing it draws from torch's default generator in the peer's order, so that equal
/// seeds give bitwise equal weights.
class Denoiser : public torch::nn::Module {
 public:
  /// x [N, C, H, W], t [N] int64 -> [N, C, H, W]
  virtual at::Tensor forward(const at::Tensor& x, const at::Tensor& t) = 0;
};

/// Builds `config.name` on the CPU in float32. `ops` must outlive the model. Throws Error (exit
/// code 2) on a shape that cannot be (resolution not divisible, channels not divisible by groups).
[[nodiscard]] std::shared_ptr<Denoiser> make_denoiser(const ModelConfig& config,
                                                      const baselines::Ops& ops);

/// Moves the model to the device, its parameters to `dtype` and, with `channels_last`, its filters
/// to NHWC memory, in which its activations then stay.
void place_model(Denoiser& model, at::Device device, at::ScalarType dtype, bool channels_last);

/// While alive, the model is in evaluation mode (no dropout); the destructor puts back the mode
/// that it was in.
class [[nodiscard]] EvaluationModeGuard {
 public:
  explicit EvaluationModeGuard(Denoiser& model)
      : model_(model), was_training_(model.is_training()) {
    model_.eval();
  }
  ~EvaluationModeGuard() { model_.train(was_training_); }
  EvaluationModeGuard(const EvaluationModeGuard&) = delete;
  EvaluationModeGuard& operator=(const EvaluationModeGuard&) = delete;

 private:
  Denoiser& model_;
  bool was_training_;
};

}  // namespace noisemark::suite
