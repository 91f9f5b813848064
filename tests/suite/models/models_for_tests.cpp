#include "tests/suite/models/models_for_tests.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>

namespace noisemark::suite::test {

std::shared_ptr<Denoiser> perturbed(const ModelConfig& config) {
  torch::manual_seed(1);
  auto model = make_denoiser(config, baselines::plain_ops());
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : model->parameters()) {
    parameter.add_(at::randn_like(parameter), 0.05);
  }
  return model;
}

Inputs inputs_for(const ModelConfig& config) {
  torch::manual_seed(2);
  return {at::randn({2, config.channels, config.resolution, config.resolution}),
          at::randint(0, 1000, {2}, at::TensorOptions().dtype(at::kLong))};
}

int64_t parameter_count(const Denoiser& model) {
  int64_t count = 0;
  for (const at::Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

std::string complaint(const ModelConfig& config) {
  try {
    (void)make_denoiser(config, baselines::plain_ops());
  } catch (const Error& error) {
    if (error.code() == ExitCode::kBadInput) return error.what();
  }
  return "";
}

double relative_error(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>() / b.abs().max().item<double>();
}

}  // namespace noisemark::suite::test
