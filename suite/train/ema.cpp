#include "suite/train/ema.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>

namespace noisemark::suite {

Ema::Ema(NamedTensors parameters, const EmaConfig& config) : config_(config) {
  if (config_.kind == "none") return;
  for (const auto& [name, parameter] : parameters) {
    weights_.push_back(parameter.detach());
    averages_.push_back(weights_.back().clone());
    shadows_.emplace_back(name, averages_.back());
  }
}

void Ema::copy_weights() {
  at::_foreach_copy_(averages_, weights_);
}

void Ema::lerp(double weight) {
  at::_foreach_lerp_(averages_, weights_, weight);
}

double Ema::power_decay(int64_t steps) const {
  const int64_t epoch = std::max<int64_t>(0, steps - config_.update_after_step - 1);
  if (epoch == 0) return 0.0;
  const at::Tensor base = at::scalar_tensor(epoch, at::kFloat) / config_.inv_gamma + 1;
  const at::Tensor value = 1 - at::pow(base, -config_.power);
  return value.clamp(0.0, config_.decay).item<double>();
}

void Ema::update_power() {
  const int64_t step = steps_taken_++;
  if (step == 0) return copy_weights();
  if (step % config_.update_every != 0) return;
  if (step <= config_.update_after_step) return copy_weights();
  lerp(1.0 - power_decay(steps_taken_));
}

void Ema::update() {
  if (repeats()) {
    issue();
    return count_issued();
  }
  const at::NoGradGuard no_grad;
  update_power();
}

void Ema::issue() {
  if (config_.kind == "none") return;
  const at::NoGradGuard no_grad;
  lerp(1.0 - config_.decay);
}

void Ema::count_issued() {
  if (config_.kind != "none") ++steps_taken_;
}

EmaWeightsGuard::EmaWeightsGuard(const NamedTensors& parameters, const NamedTensors& average) {
  if (average.empty()) return;
  const at::NoGradGuard no_grad;
  parameters_ = parameters;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor weight = parameters_[i].second.detach();
    trained_.push_back(weight.clone());
    weight.copy_(average[i].second);
  }
}

EmaWeightsGuard::~EmaWeightsGuard() {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < trained_.size(); ++i) parameters_[i].second.detach().copy_(trained_[i]);
}

}  // namespace noisemark::suite
