#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "suite/config/definition.h"
#include "suite/io/safetensors.h"

namespace noisemark::suite {

/// Exponential moving average of the weights.
/// "constant": ema += (1 - decay) * (weight - ema) after every step (Ho et al. 2020).
/// "power": ema-pytorch 0.8.3's warm-up, decay = 1 - (1 + n / inv_gamma)^-power bounded by `decay`,
/// every `update_every` steps, a plain copy until `update_after_step`; computed in float32 as the
/// peer does, so that bits agree. "none": no shadow copy.
class Ema {
 public:
  /// `parameters` are shared with the model; shadows start as copies.
  Ema(NamedTensors parameters, const EmaConfig& config);

  /// Must be called after every optimizer step.
  void update();

  /// Returns whether update() does the same every time, so that a device can repeat it: then it is
  /// issue() and count_issued().
  [[nodiscard]] bool repeats() const { return config_.kind != "power"; }
  void issue();
  void count_issued();

  /// Shadows under the parameters' names; empty for "none". Shared: copying into them restores the
  /// average.
  [[nodiscard]] const NamedTensors& shadows() const { return shadows_; }
  void restore_steps_taken(int64_t steps) { steps_taken_ = steps; }

 private:
  void update_power();
  /// The peer's get_current_decay after `steps` updates.
  [[nodiscard]] double power_decay(int64_t steps) const;
  void copy_weights();
  void lerp(double weight);

  EmaConfig config_;
  std::vector<at::Tensor> weights_;
  std::vector<at::Tensor> averages_;
  NamedTensors shadows_;
  int64_t steps_taken_ = 0;
};

/// While alive, the model's weights are the average's; the destructor puts the trained ones back.
/// Nothing for an empty average.
class [[nodiscard]] EmaWeightsGuard {
 public:
  EmaWeightsGuard(const NamedTensors& parameters, const NamedTensors& average);
  ~EmaWeightsGuard();
  EmaWeightsGuard(const EmaWeightsGuard&) = delete;
  EmaWeightsGuard& operator=(const EmaWeightsGuard&) = delete;

 private:
  NamedTensors parameters_;
  std::vector<at::Tensor> trained_;
};

}  // namespace noisemark::suite
