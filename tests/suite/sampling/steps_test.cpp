#include "suite/sampling/steps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "reports/base/error.h"

namespace noisemark::suite {
namespace {

DiffusionProcess process_under(const std::string& objective, const std::string& schedule = "linear",
                               int64_t timesteps = 1000) {
  DiffusionConfig config;
  config.objective = objective;
  config.schedule = schedule;
  config.timesteps = timesteps;
  return {config, at::kCPU};
}

SampleConfig ddpm(const std::string& variance) {
  SampleConfig config;
  config.sampler = "ddpm";
  config.ddpm_variance = variance;
  return config;
}

SampleConfig ddim(int64_t steps, double eta) {
  SampleConfig config;
  config.sampler = "ddim";
  config.ddim_steps = steps;
  config.ddim_eta = eta;
  return config;
}

double buffer(const DiffusionProcess& process, const char* name, int64_t t) {
  return process.buffer(name)[t].item<double>();
}

/// The linear schedule of Ho et al. 2020 by its definition, in float64.
struct Linear {
  Linear() {
    double product = 1;
    for (int t = 0; t < 1000; ++t) {
      beta[t] = 1e-4 + (0.02 - 1e-4) * t / 999;
      before[t] = product;
      product *= 1 - beta[t];
      alpha_bar[t] = product;
    }
  }
  double beta[1000], alpha_bar[1000], before[1000];
};

ExitCode code_of(const SampleConfig& config) {
  try {
    (void)sampler_steps(config, process_under("eps"));
  } catch (const Error& error) {
    return error.code();
  }
  return ExitCode::kPass;
}

/// The timesteps and behind them that to which the last step leads.
std::vector<int64_t> grid_of(const std::string& grid, int64_t timesteps, int64_t steps) {
  std::vector<int64_t> times;
  for (const DdimTimes& one : ddim_timesteps(grid, timesteps, steps)) times.push_back(one.t);
  times.push_back(ddim_timesteps(grid, timesteps, steps).back().next);
  return times;
}

TEST(DdimTimesteps, of_trailing_are_those_of_diffusers) {
  EXPECT_EQ(grid_of("trailing", 1000, 10), grid_of("lucid", 1000, 10));
  EXPECT_EQ(grid_of("trailing", 1000, 3), (std::vector<int64_t>{999, 666, 332, -1}));
  EXPECT_EQ(grid_of("trailing", 1000, 7),
            (std::vector<int64_t>{999, 856, 713, 570, 428, 285, 142, 0}))
      << "142 less 1000 div 7: noise is left";
  EXPECT_EQ(grid_of("trailing", 1000, 61).size(), 62U) << "without the -1 that rounding adds";
  EXPECT_EQ(grid_of("trailing", 1000, 16)[1], 937) << "937.5 is rounded to even";
}

TEST(DdimTimesteps, of_lucid_lead_from_one_to_the_next_and_of_trailing_by_whole_strides) {
  for (int64_t steps = 1; steps <= 100; ++steps) {
    const std::vector<DdimTimes> lucid = ddim_timesteps("lucid", 100, steps);
    for (size_t i = 1; i < lucid.size(); ++i) EXPECT_EQ(lucid[i - 1].next, lucid[i].t);
    for (const DdimTimes& one : ddim_timesteps("trailing", 100, steps)) {
      EXPECT_EQ(one.next, std::max<int64_t>(-1, one.t - 100 / steps)) << steps;
      EXPECT_GE(one.t, 0) << steps;
    }
  }
}

TEST(DdimTimesteps, are_the_peers_grid) {
  EXPECT_EQ(grid_of("lucid", 1000, 10),
            (std::vector<int64_t>{999, 899, 799, 699, 599, 499, 399, 299, 199, 99, -1}));
  EXPECT_EQ(grid_of("lucid", 1000, 1), (std::vector<int64_t>{999, -1}));
  EXPECT_EQ(grid_of("lucid", 4, 4), (std::vector<int64_t>{3, 2, 1, 0, -1}));
  EXPECT_EQ(grid_of("lucid", 8, 3), (std::vector<int64_t>{7, 4, 1, -1})) << "rounded towards 0";
}

TEST(DdimTimesteps, never_repeat_one) {
  for (const int64_t timesteps : {8, 50, 1000}) {
    for (int64_t steps = 1; steps <= timesteps; ++steps) {
      const std::vector<int64_t> times = grid_of("lucid", timesteps, steps);
      ASSERT_EQ(times.size(), static_cast<size_t>(steps) + 1);
      ASSERT_EQ(times.front(), timesteps - 1);
      ASSERT_EQ(times.back(), -1);
      for (size_t i = 1; i < times.size(); ++i) ASSERT_LT(times[i], times[i - 1]) << steps;
    }
  }
}

/// x0 = (x - sqrt(1 - a) eps) / sqrt(a) = sqrt(a) x - sqrt(1 - a) v. Buffers are rounded to
/// float32.
TEST(SamplerSteps, know_x0_from_every_objective) {
  const Linear exact;
  for (const int64_t t : {0, 1, 500, 999}) {
    const double a = exact.alpha_bar[t];
    const auto at_t = [t](const std::string& objective) {
      return sampler_steps(ddpm("small"), process_under(objective))[static_cast<size_t>(999 - t)];
    };
    EXPECT_EQ(at_t("eps").t, t);
    EXPECT_NEAR(at_t("eps").x0_from_x * std::sqrt(a), 1, 1e-6);
    EXPECT_NEAR(at_t("eps").x0_from_out / -std::sqrt(1 / a - 1), 1, 1e-6);
    EXPECT_NEAR(at_t("v").x0_from_x / std::sqrt(a), 1, 1e-6);
    EXPECT_NEAR(at_t("v").x0_from_out / -std::sqrt(1 - a), 1, 1e-6);
    EXPECT_EQ(at_t("x0").x0_from_x, 0);
    EXPECT_EQ(at_t("x0").x0_from_out, 1);
  }
}

TEST(SamplerSteps, of_ddpm_are_the_posterior_of_the_schedules_buffers) {
  for (const char* schedule : {"linear", "cosine", "sigmoid"}) {
    const DiffusionProcess process = process_under("v", schedule);
    const std::vector<SamplerStep> steps = sampler_steps(ddpm("small"), process);
    ASSERT_EQ(steps.size(), 1000U);
    for (int64_t i = 0; i < 1000; ++i) {
      const SamplerStep& step = steps[static_cast<size_t>(i)];
      ASSERT_EQ(step.t, 999 - i);
      ASSERT_EQ(step.x_from_x0, buffer(process, "posterior_mean_coef1", step.t));
      ASSERT_EQ(step.x_from_x, buffer(process, "posterior_mean_coef2", step.t));
    }
  }
}

/// Ho et al. 2020, section 3.2. The peer bounds the posterior's variance by 1e-20 before its
/// logarithm, which is rounded to float32: 2^-24 of a number of at most 47.
TEST(SamplerSteps, of_ddpm_have_the_variance_that_was_asked_for_and_none_at_the_end) {
  const Linear exact;
  const auto small = sampler_steps(ddpm("small"), process_under("eps"));
  const auto large = sampler_steps(ddpm("large"), process_under("eps"));
  for (const int64_t t : {1, 2, 10, 500, 999}) {
    const auto i = static_cast<size_t>(999 - t);
    const double posterior = (1 - exact.before[t]) / (1 - exact.alpha_bar[t]) * exact.beta[t];
    EXPECT_NEAR(small[i].x_from_noise / std::sqrt(posterior), 1, 3e-6) << t;
    EXPECT_NEAR(large[i].x_from_noise / std::sqrt(exact.beta[t]), 1, 1e-6) << t;
    EXPECT_LT(small[i].x_from_noise, large[i].x_from_noise) << t;
  }
  EXPECT_EQ(small.back().t, 0);
  EXPECT_EQ(small.back().x_from_noise, 0);
  EXPECT_EQ(large.back().x_from_noise, 0);
}

/// Song et al. 2021, section 4.1: with eta = 1 and every timestep DDIM is DDPM with the small
/// variance. beta comes out of a difference of float32 numbers next to 1: 6e-8 / 1e-4 of it.
TEST(SamplerSteps, of_ddim_with_all_noise_and_all_timesteps_are_those_of_ddpm) {
  const auto all = sampler_steps(ddim(1000, 1), process_under("eps"));
  const auto ddpm_steps = sampler_steps(ddpm("small"), process_under("eps"));
  ASSERT_EQ(all.size(), ddpm_steps.size());
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    ASSERT_EQ(all[i].t, ddpm_steps[i].t);
    ASSERT_EQ(all[i].x0_from_x, ddpm_steps[i].x0_from_x);
    ASSERT_EQ(all[i].x0_from_out, ddpm_steps[i].x0_from_out);
    ASSERT_NEAR(all[i].x_from_x0, ddpm_steps[i].x_from_x0, 2e-3) << all[i].t;
    ASSERT_NEAR(all[i].x_from_x, ddpm_steps[i].x_from_x, 2e-3) << all[i].t;
    ASSERT_NEAR(all[i].x_from_noise / ddpm_steps[i].x_from_noise, 1, 2e-3) << all[i].t;
  }
}

/// Equation 12: what is made of x0 and eps has the energy that the next timestep asks for.
TEST(SamplerSteps, of_ddim_keep_the_energy_of_the_next_timestep) {
  const DiffusionProcess process = process_under("eps", "cosine");
  for (const double eta : {0.0, 0.5, 1.0}) {
    const auto steps = sampler_steps(ddim(20, eta), process);
    for (size_t i = 0; i + 1 < steps.size(); ++i) {
      const double a = buffer(process, "alphas_cumprod", steps[i].t);
      const double a_next = buffer(process, "alphas_cumprod", steps[i + 1].t);
      // x = sqrt(a) x0 + sqrt(1 - a) eps with x0 and eps independent and of variance 1.
      const double of_x0 = steps[i].x_from_x0 + steps[i].x_from_x * std::sqrt(a);
      const double of_eps = steps[i].x_from_x * std::sqrt(1 - a);
      const double of_noise = steps[i].x_from_noise;
      EXPECT_NEAR(of_x0, std::sqrt(a_next), 1e-5);
      EXPECT_NEAR(of_eps * of_eps + of_noise * of_noise, 1 - a_next, 1e-5);
      EXPECT_EQ(of_noise == 0, eta == 0);
    }
  }
}

TEST(SamplerSteps, of_ddim_end_with_x0) {
  const SamplerStep last = sampler_steps(ddim(10, 1), process_under("v")).back();
  EXPECT_EQ(last.t, 99);
  EXPECT_EQ(last.x_from_x0, 1);
  EXPECT_EQ(last.x_from_x, 0);
  EXPECT_EQ(last.x_from_noise, 0);
}

TEST(SamplerSteps, refuse_what_is_no_sampler) {
  EXPECT_EQ(code_of(ddim(10, 0)), ExitCode::kPass);
  EXPECT_EQ(code_of(ddim(0, 0)), ExitCode::kBadInput);
  EXPECT_EQ(code_of(ddim(1001, 0)), ExitCode::kBadInput);
  EXPECT_EQ(code_of(ddim(10, -0.1)), ExitCode::kBadInput);
  EXPECT_EQ(code_of(ddim(10, 1.1)), ExitCode::kBadInput);
  EXPECT_EQ(code_of(ddim(10, std::numeric_limits<double>::quiet_NaN())), ExitCode::kBadInput);
  EXPECT_EQ(code_of(ddpm("medium")), ExitCode::kBadInput);
  EXPECT_EQ(code_of(SampleConfig{}), ExitCode::kBadInput);
}

}  // namespace
}  // namespace noisemark::suite
