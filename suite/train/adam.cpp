#include "suite/train/adam.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

namespace noisemark::suite {

at::Tensor norm_of(const std::vector<at::Tensor>& gradients) {
  const at::NoGradGuard no_grad;
  return at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients)), 2);
}

void clip_gradients(const std::vector<at::Tensor>& gradients, double max_norm,
                    const at::Tensor& norm) {
  const at::NoGradGuard no_grad;
  const at::Tensor factor = at::clamp(max_norm / (norm + 1e-6), /*min=*/std::nullopt, 1.0);
  // Looking is free on the CPU and saves a pass over all gradients; elsewhere it would wait for the
  // device.
  if (!norm.is_cpu()) {
    at::_foreach_mul_(gradients, at::nan_to_num(factor, 1.0));
  } else if (factor.item<double>() < 1.0) {
    at::_foreach_mul_(gradients, factor);
  }
}

NamedTensors pieces_of(const NamedTensors& tensors, const Pieces& pieces) {
  NamedTensors found;
  for (const Piece& piece : pieces) {
    const auto& [name, whole] = tensors[piece.tensor];
    found.emplace_back(name, piece_of(whole, piece));
  }
  return found;
}

RateScale rate_scale(const Definition& definition) {
  const ScaleConfig& scaling = definition.scaling;
  const double times =
      static_cast<double>(definition.train.batch) / static_cast<double>(scaling.base_batch);
  if (scaling.rule == "linear") return {times, scaling.warmup_steps};
  if (scaling.rule == "sqrt") return {std::sqrt(times), scaling.warmup_steps};
  return {};
}

namespace {

void require_gradient(const std::pair<std::string, at::Tensor>& parameter) {
  TORCH_CHECK(parameter.second.grad().defined(),
              "a gradient for every parameter, but got none for ", parameter.first);
}

/// 1 after the last of `steps`.
double risen(int64_t step, int64_t steps) {
  if (steps == 0) return 1;
  return std::min(1.0, static_cast<double>(step + 1) / static_cast<double>(steps));
}

}  // namespace

Adam::Adam(NamedTensors parameters, const OptimizerConfig& config, std::optional<Pieces> own,
           const RateScale& scale)
    : parameters_(std::move(parameters)), config_(config), scale_(scale), own_(std::move(own)) {
  for (const auto& [name, parameter] : own_ ? pieces_of(parameters_, *own_) : parameters_) {
    const at::Tensor weight = parameter.detach();
    names_.push_back(name);
    weights_.push_back(weight);
    exp_avg_.push_back(at::zeros_like(weight));
    exp_avg_sq_.push_back(at::zeros_like(weight));
    steps_.push_back(at::zeros({}, at::device(weight.device()).dtype(at::kFloat)));
  }
}

double Adam::learning_rate(int64_t step) const {
  const double scaled = 1 + (scale_.factor - 1) * risen(step, scale_.warmup_steps);
  return config_.lr * risen(step, config_.warmup_steps) * scaled;
}

std::vector<at::Tensor> Adam::gradients() const {
  std::vector<at::Tensor> gradients;
  gradients.reserve(parameters_.size());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& gradient = parameters_[i].second.grad();
    if (!own_ || has_piece(i)) require_gradient(parameters_[i]);
    if (gradient.defined()) gradients.push_back(gradient);
  }
  return gradients;
}

bool Adam::has_piece(size_t parameter) const {
  return std::any_of(own_->begin(), own_->end(),
                     [parameter](const Piece& piece) { return piece.tensor == parameter; });
}

std::vector<at::Tensor> Adam::own_gradients() const {
  if (!own_) return gradients();
  std::vector<at::Tensor> own;
  for (const Piece& piece : *own_) {
    const auto& parameter = parameters_[piece.tensor];
    require_gradient(parameter);
    own.push_back(piece_of(parameter.second.grad(), piece));
  }
  return own;
}

void Adam::step(const std::optional<at::Tensor>& found_inf) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> no_amsgrad;
  at::_foreach_add_(steps_, 1);
  at::_fused_adam_(weights_, own_gradients(), exp_avg_, exp_avg_sq_, no_amsgrad, steps_,
                   learning_rate(steps_taken_), config_.beta1, config_.beta2,
                   /*weight_decay=*/0.0, config_.eps, /*amsgrad=*/false, /*maximize=*/false,
                   /*grad_scale=*/std::nullopt, found_inf);
  if (found_inf) {  // a skipped update is not a step
    at::_foreach_sub_(steps_, std::vector<at::Tensor>(steps_.size(), *found_inf));
  }
  ++steps_taken_;
}

const at::Tensor& Adam::rate_on_device() {
  const bool varies = config_.warmup_steps > 0 || scale_.warmup_steps > 0;
  if (!varies || rate_.defined()) return rate_;
  // The GPU's kernel reads a float32; the CPU's takes what the tensor holds.
  const at::Device device = weights_.front().device();
  rate_ = at::zeros({}, at::device(device).dtype(device.is_cpu() ? at::kDouble : at::kFloat));
  return rate_;
}

void Adam::prepare_issued() {
  const at::NoGradGuard no_grad;
  if (rate_on_device().defined()) rate_.fill_(learning_rate(steps_taken_));
}

void Adam::issue(const at::Tensor& found_inf) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> no_amsgrad;
  at::_foreach_add_(steps_, 1);
  const at::Tensor& rate = rate_on_device();
  if (rate.defined()) {
    at::_fused_adam_(weights_, own_gradients(), exp_avg_, exp_avg_sq_, no_amsgrad, steps_, rate,
                     config_.beta1, config_.beta2, /*weight_decay=*/0.0, config_.eps,
                     /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/std::nullopt, found_inf);
  } else {
    at::_fused_adam_(weights_, own_gradients(), exp_avg_, exp_avg_sq_, no_amsgrad, steps_,
                     learning_rate(0), config_.beta1, config_.beta2, /*weight_decay=*/0.0,
                     config_.eps,
                     /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/std::nullopt, found_inf);
  }
  at::_foreach_sub_(steps_, std::vector<at::Tensor>(steps_.size(), found_inf));
}

void Adam::release_gradients() {
  for (auto& [name, parameter] : parameters_) parameter.mutable_grad().reset();
}

NamedTensors Adam::state() const {
  NamedTensors state;
  for (size_t i = 0; i < names_.size(); ++i) {
    const std::string& name = names_[i];
    state.emplace_back("adam.exp_avg." + name, exp_avg_[i]);
    state.emplace_back("adam.exp_avg_sq." + name, exp_avg_sq_[i]);
    state.emplace_back("adam.step." + name, steps_[i]);
  }
  return state;
}

}  // namespace noisemark::suite
