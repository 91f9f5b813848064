#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/utils.h>

#include <memory>
#include <string>

#include "baselines/ops.h"
#include "reports/base/error.h"
#include "suite/models/denoiser.h"

/// Small networks, and what the tests of both ask of them.
namespace noisemark::suite::test {

inline ModelConfig small_lucid() {
  ModelConfig config;
  config.name = "lucid-unet";
  config.channels = 1;
  config.resolution = 16;
  config.dim = 16;
  config.dim_mults = {1, 2};
  return config;
}

inline ModelConfig small_ho() {
  ModelConfig config;
  config.name = "ho-unet";
  config.channels = 1;
  config.resolution = 16;
  config.dim = 32;
  config.dim_mults = {1, 2};
  config.groups = 8;
  config.attention_resolutions = {8};
  return config;
}

inline ModelConfig locked_lucid() {
  ModelConfig config;
  config.name = "lucid-unet";
  return config;
}

inline ModelConfig locked_ho() {
  ModelConfig config;
  config.name = "ho-unet";
  config.dim = 128;
  config.dim_mults = {1, 2, 2, 2};
  return config;
}

/// Makes a model with every parameter moved, so that no norm keeps the weights 1 and 0 that hide
/// mistakes.
std::shared_ptr<Denoiser> perturbed(const ModelConfig& config);

struct Inputs {
  at::Tensor x;
  at::Tensor t;
};

/// Two samples, drawn from a fixed seed.
Inputs inputs_for(const ModelConfig& config);

int64_t parameter_count(const Denoiser& model);

/// The message of the Error with exit code 2 that making the model throws; empty if it throws none.
std::string complaint(const ModelConfig& config);

/// Largest |a - b| relative to the largest |b|.
double relative_error(const at::Tensor& a, const at::Tensor& b);

}  // namespace noisemark::suite::test
