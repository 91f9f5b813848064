#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "baselines/ops.h"
#include "suite/config/definition.h"

namespace noisemark::suite {

/// The values that the parts of a network hand on.
struct Flow {
  at::Tensor h;                   ///< [N, C, H, W]; the first part gets the noisy images
  at::Tensor t;                   ///< [N] int64, the timesteps; only the first part reads them
  at::Tensor time;                ///< [N, time_channels], their embedding, by the first part
  std::vector<at::Tensor> skips;  ///< a stack: a part puts on it, or takes from it, what is on top
};

/// A part of a network that can run where the others are not: a block of the U-Net.
struct Part {
  std::string name;  ///< block name, as in the state dict: "down_blocks.0.resnets.1"
  /// The beginnings of the names of its parameters, which no other part has.
  std::vector<std::string> prefixes;
  std::function<void(Flow&)> run;  ///< valid as long as the network
};

/// The network that predicts noise (or x0, or v). Parameter names are the peers' state dict keys,
/// and constructing it draws from torch's default generator in the peer's order, so that equal
/// seeds give bitwise equal weights.
class Denoiser : public torch::nn::Module {
 public:
  /// x [N, C, H, W], t [N] int64 -> [N, C, H, W]: runs all parts, one after the other.
  virtual at::Tensor forward(const at::Tensor& x, const at::Tensor& t);

  /// The parts in the order of the forward pass. The last one's `h` is the prediction.
  [[nodiscard]] const std::vector<Part>& parts() const { return parts_; }

 protected:
  /// Serves a network that overrides forward(), and has no parts.
  Denoiser() = default;
  /// `factor` divides the height and the width of an image.
  Denoiser(int64_t channels, int64_t factor) : channels_(channels), factor_(factor) {}

  std::vector<Part> parts_;

 private:
  int64_t channels_ = 0;
  int64_t factor_ = 1;
};

/// Builds `config.name` on the CPU in float32. `ops` must outlive the model. Throws Error (exit
/// code 2) on a shape that cannot be (resolution not divisible, channels not divisible by groups).
[[nodiscard]] std::shared_ptr<Denoiser> make_denoiser(const ModelConfig& config,
                                                      const baselines::Ops& ops);

/// The rows of the first convolution's filters. No other convolution's are more.
[[nodiscard]] int64_t first_kernel_of(const ModelConfig& config);

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
