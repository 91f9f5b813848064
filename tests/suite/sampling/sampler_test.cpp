#include "suite/sampling/sampler.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "baselines/ops.h"
#include "reports/base/error.h"
#include "suite/io/numpy.h"
#include "suite/random/counter_rng.h"
#include "suite/sampling/steps.h"
#include "tests/suite/scratch.h"

namespace noisemark::suite {
namespace {

/// Any function whose value at a place depends on x there and on t only; remembers how it was
/// called.
class PointwiseDenoiser final : public Denoiser {
 public:
  at::Tensor forward(const at::Tensor& x, const at::Tensor& t) override {
    if (fails) throw std::runtime_error("forward failed");
    saw_training = saw_training || is_training();
    saw_gradients = saw_gradients || at::GradMode::is_enabled();
    batches.push_back(x.size(0));
    timesteps.push_back(t[0].item<int64_t>());
    if (gives_nan) return at::full_like(x, std::numeric_limits<double>::quiet_NaN());
    return at::tanh(x * 0.7) + t.to(x.scalar_type()).reshape({-1, 1, 1, 1}) * 1e-4;
  }

  bool fails = false;
  bool gives_nan = false;
  bool saw_training = false;
  bool saw_gradients = false;
  std::vector<int64_t> batches;
  std::vector<int64_t> timesteps;
};

SampleConfig sample_of(const std::string& sampler, int64_t count = 12) {
  SampleConfig sample;
  sample.sampler = sampler;
  sample.count = count;
  sample.ddim_steps = 5;
  return sample;
}

SamplerOptions options_of(int64_t batch, const std::string& precision = "fp32") {
  SamplerOptions options;
  options.precision = parse_precision(precision, at::kCPU);
  options.batch = batch;
  return options;
}

DiffusionProcess process_of(const std::string& objective = "eps",
                            at::ScalarType dtype = at::kFloat) {
  DiffusionConfig config;
  config.objective = objective;
  config.timesteps = 40;
  return {config, at::kCPU, dtype};
}

at::Tensor draw(Denoiser& model, const SampleConfig& sample, const SamplerOptions& options,
                const NoiseSource& noise = counter_noise(3), const std::string& objective = "eps") {
  return draw_samples(model, process_of(objective, options.precision.weights),
                      {sample, 2, 4, noise}, options);
}

at::Tensor draw_pointwise(const SampleConfig& sample, int64_t batch) {
  PointwiseDenoiser model;
  return draw(model, sample, options_of(batch));
}

TEST(Sampler, gives_the_same_bits_however_the_samples_are_split_into_batches) {
  for (const char* name : {"ddim", "ddpm"}) {
    SampleConfig sample = sample_of(name);
    sample.ddim_eta = 0.5;
    const at::Tensor whole = draw_pointwise(sample, 12);
    for (const int64_t batch : {1, 5, 7, 100}) {
      EXPECT_TRUE(draw_pointwise(sample, batch).equal(whole)) << name << " " << batch;
    }
    sample.count = 5;
    EXPECT_TRUE(draw_pointwise(sample, 4).equal(whole.narrow(0, 0, 5))) << "of fewer samples";
  }
}

/// A real network: libraries may choose other kernels for another batch, which moves last bits.
/// Five steps of float32 with values near 1 and a handful of amplifications stay within 1e-4.
TEST(Sampler, of_a_network_depends_on_the_batch_by_rounding_only) {
  ModelConfig config;
  config.name = "lucid-unet";
  config.channels = 1;
  config.resolution = 16;
  config.dim = 8;
  config.dim_mults = {1, 2};
  const auto model = make_denoiser(config, baselines::plain_ops());
  const DiffusionProcess process = process_of("v");
  const auto draw_in = [&](int64_t batch, bool channels_last) {
    SamplerOptions options = options_of(batch);
    options.channels_last = channels_last;
    place_model(*model, at::kCPU, at::kFloat, channels_last);
    return draw_samples(*model, process, {sample_of("ddim", 6), 1, 16, counter_noise(3)}, options);
  };
  const at::Tensor whole = draw_in(6, false);
  EXPECT_LT((draw_in(4, false) - whole).abs().max().item<double>(), 1e-4);
  EXPECT_LT((draw_in(6, true) - whole).abs().max().item<double>(), 1e-4) << "in NHWC memory";
}

TEST(Sampler, without_eta_asks_for_initial_noise_only) {
  std::vector<int64_t> numbers;
  const NoiseSource noise = [&](const NoiseDraw& what, const at::Tensor& out) {
    numbers.push_back(what.number);
    counter_noise(3)(what, out);
  };
  PointwiseDenoiser model;
  const at::Tensor samples = draw(model, sample_of("ddim"), options_of(6), noise);
  EXPECT_EQ(numbers, (std::vector<int64_t>{0, 0}));
  EXPECT_TRUE(draw(model, sample_of("ddim"), options_of(6), noise).equal(samples));
  numbers.clear();
  SampleConfig noisy = sample_of("ddim");
  noisy.ddim_eta = 1;
  EXPECT_FALSE(draw(model, noisy, options_of(12), noise).equal(samples));
  EXPECT_EQ(numbers, (std::vector<int64_t>{0, 1, 2, 3, 4})) << "none in the last step";
}

TEST(Sampler, asks_the_network_at_the_samplers_timesteps) {
  PointwiseDenoiser model;
  (void)draw(model, sample_of("ddim"), options_of(12));
  EXPECT_EQ(model.timesteps, (std::vector<int64_t>{39, 31, 23, 15, 7}));
  model.timesteps.clear();
  (void)draw(model, sample_of("ddpm"), options_of(12));
  ASSERT_EQ(model.timesteps.size(), 40U);
  EXPECT_EQ(model.timesteps.front(), 39);
  EXPECT_EQ(model.timesteps.back(), 0);
}

/// The update as the papers write it, step by step with ATen's operators.
TEST(Sampler, computes_what_the_papers_write) {
  const DiffusionProcess process = process_of("eps", at::kDouble);
  const at::Tensor a = process.buffer("alphas_cumprod");
  PointwiseDenoiser model;
  const auto x0_of = [&](const at::Tensor& x, int64_t t) {
    const at::Tensor eps = model.forward(x, at::full({x.size(0)}, t, at::kLong));
    return ((x - (1 - a[t]).sqrt() * eps) / a[t].sqrt()).clamp(-1, 1);
  };
  at::Tensor x = at::empty({12, 2, 4, 4}, at::kDouble);
  const NoiseSource noise = counter_noise(3);
  noise({0, 0}, x);
  const std::vector<DdimTimes> times = ddim_timesteps("lucid", 40, 5);
  for (size_t i = 0; i < 5; ++i) {
    const at::Tensor x0 = x0_of(x, times[i].t);
    if (times[i].next < 0) {
      x = x0;
      break;
    }
    const at::Tensor now = a[times[i].t];
    const at::Tensor next = a[times[i].next];
    const at::Tensor eps = (x - now.sqrt() * x0) / (1 - now).sqrt();
    const at::Tensor sigma = 0.5 * ((1 - next) / (1 - now) * (1 - now / next)).sqrt();
    at::Tensor fresh = at::empty_like(x);
    noise({static_cast<int64_t>(i) + 1, 0}, fresh);
    x = next.sqrt() * x0 + (1 - next - sigma * sigma).sqrt() * eps + sigma * fresh;
  }
  SampleConfig sample = sample_of("ddim");
  sample.ddim_eta = 0.5;
  PointwiseDenoiser again;
  const at::Tensor ours = draw(again, sample, options_of(12, "fp64"), noise);
  // Roots and reciprocals of alpha_bar are buffers of their own, each rounded to float32.
  EXPECT_LT((ours - x).abs().max().item<double>(), 1e-5);
}

TEST(Sampler, runs_in_evaluation_mode_without_gradients_and_restores_the_mode) {
  PointwiseDenoiser model;
  model.train();
  (void)draw(model, sample_of("ddim"), options_of(12));
  EXPECT_FALSE(model.saw_training);
  EXPECT_FALSE(model.saw_gradients);
  EXPECT_TRUE(model.is_training());
  model.fails = true;
  EXPECT_THROW((void)draw(model, sample_of("ddim"), options_of(12)), std::runtime_error);
  EXPECT_TRUE(model.is_training());
  EXPECT_TRUE(at::GradMode::is_enabled());
}

TEST(Sampler, gives_samples_that_may_take_part_in_anything) {
  PointwiseDenoiser model;
  const at::Tensor samples = draw(model, sample_of("ddim"), options_of(12));
  EXPECT_FALSE(samples.is_inference());
  EXPECT_EQ(samples.scalar_type(), at::kFloat);
  EXPECT_TRUE(samples.is_contiguous());
  EXPECT_LE(samples.abs().max().item<float>(), 1.0F);
}

TEST(Sampler, tells_where_it_is_and_can_be_ended) {
  PointwiseDenoiser model;
  SamplerOptions options = options_of(8);
  std::vector<int64_t> done;
  options.before_step = [&](const SamplerPosition& at) {
    if (at.step == 0) done.push_back(at.samples_done);
    EXPECT_EQ(at.samples, 12);
    EXPECT_EQ(at.steps, 5);
    if (at.samples_done == 8 && at.step == 3) throw std::runtime_error("enough");
  };
  EXPECT_THROW((void)draw(model, sample_of("ddim"), options), std::runtime_error);
  EXPECT_EQ(done, (std::vector<int64_t>{0, 8}));
  EXPECT_EQ(model.batches.back(), 4);
}

TEST(Sampler, refuses_to_give_what_is_not_finite) {
  PointwiseDenoiser model;
  model.gives_nan = true;
  try {
    (void)draw(model, sample_of("ddim"), options_of(12));
    FAIL() << "samples of NaN";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kFailed);
    EXPECT_NE(std::string(error.what()).find("samples 0 to 11: not finite"), std::string::npos);
  }
}

TEST(UpdateSample, is_the_same_in_every_memory_order_and_type) {
  SamplerStep step;
  step.x0_from_x = 1.5;
  step.x0_from_out = -0.8;
  step.x_from_x0 = 0.6;
  step.x_from_x = 0.3;
  step.x_from_noise = 0.1;
  const at::Tensor x = at::randn({3, 5, 4, 4});
  const at::Tensor out = at::randn({3, 5, 4, 4});
  const at::Tensor noise = at::randn({3, 5, 4, 4});
  const at::Tensor flat = x.clone();
  update_sample(step, out, noise, flat);
  const at::Tensor x0 = (1.5 * x - 0.8 * out).clamp(-1, 1);
  // A few roundings of numbers below 4.
  EXPECT_LT((flat - (0.6 * x0 + 0.3 * x + 0.1 * noise)).abs().max().item<double>(), 2e-6);
  const auto nhwc = [](const at::Tensor& tensor) {
    return tensor.contiguous(at::MemoryFormat::ChannelsLast);
  };
  at::Tensor other = nhwc(x.clone());
  update_sample(step, nhwc(out), nhwc(noise), other);
  EXPECT_TRUE(other.equal(flat));
  other = x.clone();
  update_sample(step, nhwc(out), noise, other);
  EXPECT_LT((other - flat).abs().max().item<double>(), 2e-6) << "of mixed orders, by ATen";
  other = x.to(at::kDouble);
  update_sample(step, out.to(at::kDouble), noise.to(at::kDouble), other);
  EXPECT_LT((other - flat).abs().max().item<double>(), 2e-6);
}

TEST(UpdateSample, keeps_nan_visible) {
  SamplerStep step;
  step.x0_from_out = 1;
  step.x_from_x0 = 1;
  const at::Tensor x = at::randn({1, 1, 4, 4});
  update_sample(step, at::full_like(x, std::nan("")), {}, x);
  EXPECT_TRUE(x.isnan().all().item<bool>());
}

at::Tensor drawn(const NoiseSource& source, const NoiseDraw& draw, int64_t count,
                 at::ScalarType type = at::kFloat) {
  const at::Tensor out = at::empty({count, 3, 4, 4}, type);
  source(draw, out);
  return out;
}

TEST(CounterNoise, of_a_sample_depends_on_the_seed_the_draw_and_the_sample_alone) {
  const NoiseSource source = counter_noise(7);
  const at::Tensor all = drawn(source, {2, 0}, 5);
  for (int64_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(drawn(source, {2, i}, 1)[0].equal(all[i])) << i;
    std::vector<float> expected(48);
    CounterRng(7, Stream::kSampler, 2, static_cast<uint64_t>(i)).fill_normal(expected);
    for (int64_t j = 0; j < 48; ++j) {
      ASSERT_EQ(all[i].flatten()[j].item<float>(), expected[static_cast<size_t>(j)]);
    }
  }
  EXPECT_FALSE(drawn(counter_noise(8), {2, 0}, 5).equal(all));
  EXPECT_FALSE(drawn(source, {1, 0}, 5).equal(all));
}

TEST(CounterNoise, in_float32_is_that_in_float64_rounded) {
  const at::Tensor single = drawn(counter_noise(1), {0, 3}, 2);
  const at::Tensor full = drawn(counter_noise(1), {0, 3}, 2, at::kDouble);
  EXPECT_TRUE(full.to(at::kFloat).equal(single));
}

TEST(InitialNoise, is_taken_for_the_first_draw_only) {
  const at::Tensor initial = at::randn({6, 3, 4, 4}, at::kDouble);
  const NoiseSource source = with_initial_noise(initial, counter_noise(7));
  EXPECT_TRUE(drawn(source, {0, 2}, 3, at::kDouble).equal(initial.narrow(0, 2, 3)));
  EXPECT_TRUE(drawn(source, {0, 0}, 6).equal(initial.to(at::kFloat)));
  EXPECT_TRUE(drawn(source, {1, 2}, 3).equal(drawn(counter_noise(7), {1, 2}, 3)));
  EXPECT_ANY_THROW((void)drawn(source, {0, 4}, 3)) << "of samples that it does not have";
}

TEST(InitialNoise, is_read_from_a_file_of_the_right_shape) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("noise.npy");
  const at::Tensor noise = at::randn({5, 3, 4, 4});
  write_npy(path, noise);
  EXPECT_TRUE(read_initial_noise(path, 3, 4).equal(noise));
  const auto refused = [&](const at::Tensor& other) {
    write_npy(path, other);
    return test::outcome([&] { (void)read_initial_noise(path, 3, 4); });
  };
  EXPECT_EQ(refused(at::randn({5, 1, 4, 4})),
            std::make_pair(ExitCode::kBadInput, path + ": numbers [5, 1, 4, 4] (float32 or float64 "
                                                       "[N, 3, 4, 4])"));
  EXPECT_EQ(refused(at::randn({5, 48})).first, ExitCode::kBadInput);
  EXPECT_EQ(refused(at::empty({0, 3, 4, 4})).first, ExitCode::kBadInput);
  EXPECT_EQ(refused(at::full({5, 3, 4, 4}, 1, at::kByte)).first, ExitCode::kBadInput);
  EXPECT_EQ(refused(at::full({5, 3, 4, 4}, std::nan(""))).second,
            path + ": a NaN or an infinity (finite numbers)");
}

}  // namespace
}  // namespace noisemark::suite
