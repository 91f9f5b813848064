#include "suite/diffusion/process.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

namespace noisemark::suite {
namespace {

class Process : public ::testing::Test {
 protected:
  static DiffusionProcess make(const std::string& objective, at::ScalarType dtype = at::kDouble) {
    DiffusionConfig config;
    config.objective = objective;
    return {config, at::kCPU, dtype};
  }

  const at::Tensor x0 = at::randn({3, 2, 4, 4}, at::kDouble);
  const at::Tensor noise = at::randn({3, 2, 4, 4}, at::kDouble);
  const at::Tensor t = at::tensor({0, 400, 999}, at::kLong);
};

TEST_F(Process, mixes_signal_and_noise_with_unit_energy) {
  const DiffusionProcess process = make("eps");
  const at::Tensor energy = process.buffer("sqrt_alphas_cumprod").square() +
                            process.buffer("sqrt_one_minus_alphas_cumprod").square();
  EXPECT_LT((energy - 1).abs().max().item<double>(), 1e-6);  // buffers are rounded to float32
  const at::Tensor mixed = process.q_sample(x0, t, noise);
  const double a = process.buffer("sqrt_alphas_cumprod")[400].item<double>();
  const double b = process.buffer("sqrt_one_minus_alphas_cumprod")[400].item<double>();
  EXPECT_LT((mixed[1] - (a * x0[1] + b * noise[1])).abs().max().item<double>(), 1e-15);
}

TEST_F(Process, asks_for_what_the_objective_says) {
  EXPECT_TRUE(make("eps").target(x0, t, noise).equal(noise));
  EXPECT_TRUE(make("x0").target(x0, t, noise).equal(x0));
}

// Salimans & Ho 2022: x0 = sqrt(signal) x_t - sqrt(1 - signal) v.
TEST_F(Process, v_together_with_the_noised_picture_gives_the_picture_back) {
  const DiffusionProcess process = make("v");
  const at::Tensor a = process.buffer("sqrt_alphas_cumprod").gather(0, t).reshape({3, 1, 1, 1});
  const at::Tensor b =
      process.buffer("sqrt_one_minus_alphas_cumprod").gather(0, t).reshape({3, 1, 1, 1});
  const at::Tensor back = a * process.q_sample(x0, t, noise) - b * process.target(x0, t, noise);
  EXPECT_LT((back - x0).abs().max().item<double>(), 1e-6);  // buffers are rounded to float32
}

TEST_F(Process, weighs_each_sample_by_its_timestep) {
  const DiffusionProcess process = make("x0");
  const at::Tensor prediction = at::zeros_like(x0);
  const at::Tensor target = at::ones({3, 1, 1, 1}, at::kDouble).expand_as(x0) * 2;
  const at::Tensor weights = process.loss_weights(t);
  const double expected = (weights * 4).mean().item<double>();  // squared error 4 everywhere
  EXPECT_NEAR(process.training_loss(prediction, target, t).item<double>(), expected,
              1e-12 * expected);
  EXPECT_NE(weights[0].item<double>(), weights[2].item<double>());
}

TEST_F(Process, reports_unweighted_losses_per_sample_in_float64) {
  const at::Tensor prediction = at::zeros_like(x0, at::kFloat);
  const at::Tensor losses = make("v", at::kFloat).sample_losses(prediction, x0);
  EXPECT_EQ(losses.scalar_type(), at::kDouble);
  EXPECT_EQ(losses.sizes(), at::IntArrayRef({3}));
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(losses[i].item<double>(), x0[i].square().mean().item<double>(), 1e-14);
  }
}

TEST_F(Process, keeps_its_buffers_in_the_type_it_is_given) {
  EXPECT_EQ(make("eps", at::kFloat).buffer("betas").scalar_type(), at::kFloat);
  const DiffusionProcess wide = make("eps", at::kDouble);
  EXPECT_EQ(wide.buffer("betas").scalar_type(), at::kDouble);
  EXPECT_TRUE(wide.buffer("betas").to(at::kFloat).equal(make("eps", at::kFloat).buffer("betas")));
  EXPECT_EQ(wide.timesteps(), 1000);
}

TEST_F(Process, has_no_buffer_of_another_name) {
  EXPECT_THROW((void)make("eps").buffer("alphas"), c10::Error);
}

}  // namespace
}  // namespace noisemark::suite
