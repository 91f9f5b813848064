#include "suite/train/adam.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cmath>

namespace noisemark::suite {
namespace {

NamedTensors one_parameter(double value) {
  at::Tensor parameter = at::full({1}, value, at::kDouble);
  parameter.requires_grad_(true);
  return {{"w", parameter}};
}

OptimizerConfig config_with(double lr) {
  OptimizerConfig config;
  config.lr = lr;
  return config;
}

TEST(Adam, follows_the_recurrence_of_kingma_and_ba_for_three_steps) {
  NamedTensors parameters = one_parameter(1.0);
  const OptimizerConfig config = config_with(0.1);
  Adam adam(parameters, config);
  double m = 0, v = 0, expected = 1.0;
  for (int step = 1; step <= 3; ++step) {
    const double gradient = 0.5 * step;
    parameters[0].second.mutable_grad() = at::full({1}, gradient, at::kDouble);
    adam.step();
    m = config.beta1 * m + (1 - config.beta1) * gradient;
    v = config.beta2 * v + (1 - config.beta2) * gradient * gradient;
    const double m_hat = m / (1 - std::pow(config.beta1, step));
    const double v_hat = v / (1 - std::pow(config.beta2, step));
    expected -= config.lr * m_hat / (std::sqrt(v_hat) + config.eps);
    // A handful of double operations in another order.
    EXPECT_NEAR(parameters[0].second.item<double>(), expected, 1e-12);
  }
}

TEST(Adam, raises_the_learning_rate_linearly_over_the_warmup) {
  OptimizerConfig config = config_with(0.4);
  config.warmup_steps = 4;
  const Adam adam(one_parameter(0.0), config);
  EXPECT_DOUBLE_EQ(adam.learning_rate(0), 0.1);
  EXPECT_DOUBLE_EQ(adam.learning_rate(3), 0.4);
  EXPECT_DOUBLE_EQ(adam.learning_rate(400), 0.4);
}

TEST(Adam, scales_the_learning_rate_of_a_larger_batch_and_rises_to_it) {
  Definition definition;
  definition.train.batch = 64;
  definition.scaling.base_batch = 16;
  EXPECT_EQ(rate_scale(definition).factor, 1) << "without a rule";
  definition.scaling.rule = "linear";
  EXPECT_DOUBLE_EQ(rate_scale(definition).factor, 4);
  definition.scaling.rule = "sqrt";
  EXPECT_DOUBLE_EQ(rate_scale(definition).factor, 2);
  definition.scaling.warmup_steps = 4;
  const Adam adam(one_parameter(0.0), config_with(0.4), std::nullopt, rate_scale(definition));
  EXPECT_DOUBLE_EQ(adam.learning_rate(0), 0.5);
  EXPECT_DOUBLE_EQ(adam.learning_rate(3), 0.8);
  EXPECT_DOUBLE_EQ(adam.learning_rate(400), 0.8);
}

TEST(Adam, refuses_a_parameter_without_a_gradient) {
  Adam adam(one_parameter(0.0), config_with(0.1));
  EXPECT_THROW(adam.step(), c10::Error);
}

TEST(Adam, skips_the_update_when_a_scaled_gradient_overflowed) {
  NamedTensors parameters = one_parameter(1.0);
  Adam adam(parameters, config_with(0.1));
  parameters[0].second.mutable_grad() = at::full({1}, 3.0, at::kDouble);
  adam.step(at::ones({}, at::kFloat));
  EXPECT_EQ(parameters[0].second.item<double>(), 1.0);
  EXPECT_EQ(adam.state()[2].second.item<double>(), 0.0) << "a skipped update is not a step";
}

TEST(ClipGradients, scales_to_the_bound_and_returns_the_norm_before) {
  std::vector<at::Tensor> gradients{at::full({4}, 3.0), at::full({9}, 4.0)};
  const double norm = std::sqrt(4 * 9.0 + 9 * 16.0);
  // float32 sums of thirteen squares.
  const at::Tensor before = norm_of(gradients);
  EXPECT_NEAR(before.item<double>(), norm, 1e-5);
  clip_gradients(gradients, 1.0, before);
  EXPECT_NEAR(gradients[0][0].item<double>(), 3.0 / norm, 1e-6);
}

TEST(ClipGradients, leaves_small_gradients_alone) {
  std::vector<at::Tensor> gradients{at::full({4}, 0.1)};
  clip_gradients(gradients, 1.0, norm_of(gradients));
  EXPECT_EQ(gradients[0][0].item<float>(), 0.1f);
}

}  // namespace
}  // namespace noisemark::suite
