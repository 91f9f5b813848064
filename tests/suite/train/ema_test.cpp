#include "suite/train/ema.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cmath>

namespace noisemark::suite {
namespace {

NamedTensors two_weights(double value) {
  at::Tensor parameter = at::full({2}, value);
  parameter.requires_grad_(true);
  return {{"w", parameter}};
}

void set(const NamedTensors& parameters, double value) {
  const at::NoGradGuard no_grad;
  parameters[0].second.detach().fill_(value);
}

double average(const Ema& ema) {
  return ema.shadows()[0].second[0].item<double>();
}

TEST(Ema, constant_decay_moves_by_one_minus_decay_each_step) {
  const NamedTensors parameters = two_weights(0.0);
  EmaConfig config;
  config.kind = "constant";
  config.decay = 0.75;
  Ema ema(parameters, config);
  set(parameters, 1.0);
  ema.update();
  EXPECT_FLOAT_EQ(static_cast<float>(average(ema)), 0.25f);
  ema.update();
  EXPECT_FLOAT_EQ(static_cast<float>(average(ema)), 0.4375f);
}

TEST(Ema, power_copies_until_update_after_step_and_then_only_every_few_steps) {
  const NamedTensors parameters = two_weights(0.0);
  EmaConfig config;
  config.kind = "power";
  config.decay = 0.995;
  config.update_every = 2;
  config.update_after_step = 4;
  Ema ema(parameters, config);
  for (int step = 0; step <= 4; ++step) {
    set(parameters, step + 1.0);
    ema.update();
  }
  EXPECT_EQ(average(ema), 5.0) << "step 4 is still copied";
  set(parameters, 100.0);
  ema.update();
  EXPECT_EQ(average(ema), 5.0) << "step 5 is no multiple of update_every";
  ema.update();
  // Step 6: the peer counts 7 steps taken by then, so n = 7 - 4 - 1 = 2.
  const double decay = 1 - std::pow(1 + 2.0, -2.0 / 3.0);
  EXPECT_NEAR(average(ema), decay * 5.0 + (1 - decay) * 100.0, 1e-4);  // float32 at 100
}

TEST(Ema, none_keeps_no_shadow) {
  EmaConfig config;
  Ema ema(two_weights(0.0), config);
  ema.update();
  EXPECT_TRUE(ema.shadows().empty());
}

TEST(EmaWeightsGuard, shows_the_average_and_puts_the_trained_weights_back) {
  const NamedTensors parameters = two_weights(3.0);
  EmaConfig config;
  config.kind = "constant";
  Ema ema(parameters, config);
  set(parameters, 5.0);
  {
    const EmaWeightsGuard guard(parameters, ema.shadows());
    EXPECT_EQ(parameters[0].second[0].item<double>(), 3.0);
  }
  EXPECT_EQ(parameters[0].second[0].item<double>(), 5.0);
}

}  // namespace
}  // namespace noisemark::suite
