#include "suite/diffusion/process.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "reports/base/error.h"

namespace noisemark::suite {
namespace {

DiffusionConfig with_schedule(const std::string& schedule, int64_t timesteps = 1000) {
  DiffusionConfig config;
  config.schedule = schedule;
  config.timesteps = timesteps;
  return config;
}

at::Tensor named(const std::vector<std::pair<std::string, at::Tensor>>& buffers,
                 const std::string& name) {
  for (const auto& [candidate, values] : buffers) {
    if (candidate == name) return values;
  }
  return {};
}

// Cumulative product of 1 - beta over the first `steps` steps, from the papers' formulas.
double linear_signal(int64_t steps) {
  double signal = 1;
  for (int64_t s = 0; s < steps; ++s) {
    signal *= 1 - (1e-4 + (0.02 - 1e-4) * static_cast<double>(s) / 999);
  }
  return signal;
}

double cosine_signal(int64_t steps) {
  const auto f = [](double u) {
    return std::pow(std::cos((u + 0.008) / 1.008 * std::numbers::pi / 2), 2);
  };
  return f(static_cast<double>(steps) / 1000) / f(0);
}

double sigmoid_signal(int64_t steps) {
  const auto s = [](double u) { return 1 / (1 + std::exp(-u)); };
  const double u = static_cast<double>(steps) / 1000;
  return (s(3) - s(-3 + 6 * u)) / (s(3) - s(-3));
}

TEST(Schedule, follows_the_papers_formulas) {
  const std::vector<std::pair<std::string, double (*)(int64_t)>> cases{
      {"linear", linear_signal}, {"cosine", cosine_signal}, {"sigmoid", sigmoid_signal}};
  for (const auto& [schedule, formula] : cases) {
    const at::Tensor signal =
        (1 - make_betas(schedule, 1000)).cumprod(0);  // [t]: after t + 1 steps
    for (const int64_t t : {0, 10, 499, 900}) {
      // The sigmoid's end points are float32 on purpose, hence not 1e-12.
      EXPECT_NEAR(signal[t].item<double>(), formula(t + 1), 1e-6) << schedule << " " << t;
    }
  }
}

TEST(Schedule, destroys_the_signal_steadily) {
  for (const std::string schedule : {"linear", "cosine", "sigmoid"}) {
    for (const int64_t timesteps : {250, 1000}) {
      const auto buffers = make_schedule_buffers(with_schedule(schedule, timesteps));
      const at::Tensor signal = named(buffers, "alphas_cumprod");
      EXPECT_EQ(signal.size(0), timesteps);
      EXPECT_TRUE((signal.diff() < 0).all().item<bool>()) << schedule;
      EXPECT_LT(signal[-1].item<double>(), 1e-3) << schedule;
      EXPECT_LE(named(buffers, "betas").max().item<float>(), 0.999F) << schedule;
    }
  }
}

TEST(Schedule, has_thirteen_finite_float_buffers) {
  for (const std::string schedule : {"linear", "cosine", "sigmoid"}) {
    const auto buffers = make_schedule_buffers(with_schedule(schedule));
    EXPECT_EQ(buffers.size(), 13);
    for (const auto& [name, values] : buffers) {
      EXPECT_EQ(values.scalar_type(), at::kFloat) << name;
      EXPECT_TRUE(values.isfinite().all().item<bool>()) << schedule << " " << name;
    }
  }
}

TEST(Schedule, has_one_step_if_asked) {
  const auto buffers = make_schedule_buffers(with_schedule("cosine", 1));
  EXPECT_EQ(named(buffers, "alphas_cumprod_prev").item<float>(), 1.0F);
}

TEST(LossWeight, is_one_for_eps_and_the_signal_to_noise_ratio_for_x0) {
  DiffusionConfig config = with_schedule("linear");
  config.objective = "eps";
  EXPECT_TRUE((named(make_schedule_buffers(config), "loss_weight") == 1).all().item<bool>());
  config.objective = "x0";
  const auto buffers = make_schedule_buffers(config);
  const at::Tensor signal = named(buffers, "alphas_cumprod").to(at::kDouble)[500];
  const double ratio = (signal / (1 - signal)).item<double>();
  EXPECT_NEAR(named(buffers, "loss_weight")[500].item<double>(), ratio, 1e-5 * ratio);
}

TEST(LossWeight, for_v_is_the_share_of_signal) {
  DiffusionConfig config = with_schedule("linear");
  config.objective = "v";
  const auto buffers = make_schedule_buffers(config);
  const at::Tensor difference = named(buffers, "loss_weight") - named(buffers, "alphas_cumprod");
  EXPECT_LT(difference.abs().max().item<double>(), 1e-6);
}

TEST(LossWeight, of_x0_is_capped_by_gamma_with_min_snr_and_only_then) {
  DiffusionConfig config = with_schedule("linear");
  config.objective = "x0";
  EXPECT_GT(named(make_schedule_buffers(config), "loss_weight").max().item<float>(), 5.0F);
  config.min_snr = true;
  EXPECT_EQ(named(make_schedule_buffers(config), "loss_weight").max().item<float>(), 5.0F);
  config.min_snr_gamma = 2;
  EXPECT_EQ(named(make_schedule_buffers(config), "loss_weight").max().item<float>(), 2.0F);
}

std::string complaint(const DiffusionConfig& config) {
  try {
    (void)make_schedule_buffers(config);
  } catch (const Error& error) {
    if (error.code() == ExitCode::kBadInput) return error.what();
  }
  return "";
}

TEST(Schedule, refuses_unknown_names_and_impossible_numbers) {
  EXPECT_EQ(complaint(with_schedule("linear")), "");
  EXPECT_EQ(complaint(with_schedule("sigmoidal")).substr(0, 29), "diffusion.schedule: sigmoidal");
  EXPECT_EQ(complaint(with_schedule("linear", 0)),
            "diffusion.timesteps: 0 (an integer of at least 1)");
  DiffusionConfig config = with_schedule("linear");
  config.objective = "noise";
  EXPECT_EQ(complaint(config).substr(0, 26), "diffusion.objective: noise");
  config = with_schedule("linear");
  config.min_snr_gamma = 0;
  EXPECT_EQ(complaint(config), "diffusion.min_snr_gamma: 0 (more than 0)");
}

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
