#pragma once

#include <ATen/TensorOperators.h>

#include <string>
#include <utility>

#include "suite/data/gaussian_mixture.h"
#include "suite/diffusion/process.h"
#include "suite/models/denoiser.h"

namespace noisemark::suite::test {

/// Predicts `scale` times what is best on the average for data of this mixture.
class BayesDenoiser final : public Denoiser {
 public:
  BayesDenoiser(GaussianMixture mixture, const DiffusionProcess& process, double scale = 1)
      : mixture_(std::move(mixture)),
        alpha_bar_(process.buffer("alphas_cumprod").to(at::kDouble)),
        objective_(process.objective()),
        scale_(scale) {}

  at::Tensor forward(const at::Tensor& x, const at::Tensor& t) override {
    const at::Tensor best = mixture_.optimal_prediction(x, alpha_bar_.gather(0, t), objective_);
    return (best * scale_).to(x.scalar_type());
  }

 private:
  GaussianMixture mixture_;
  at::Tensor alpha_bar_;
  std::string objective_;
  double scale_;
};

}  // namespace noisemark::suite::test
