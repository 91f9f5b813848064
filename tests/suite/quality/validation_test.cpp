#include "suite/quality/validation.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "reports/base/error.h"
#include "suite/data/gaussian_mixture.h"
#include "suite/data/generated.h"
#include "suite/data/image_folder.h"
#include "suite/random/counter_rng.h"
#include "tests/suite/bayes_denoiser.h"
#include "tests/suite/data/image_writer.h"

namespace noisemark::suite {
namespace {

Definition gmm16_definition(const std::string& objective = "v") {
  Definition definition;
  definition.id = "gmm16";
  definition.seed = 5;
  definition.model.channels = 1;
  definition.model.resolution = 16;
  definition.data.name = "gmm16";
  definition.data.flip = false;
  definition.diffusion.schedule = "sigmoid";
  definition.diffusion.objective = objective;
  definition.train.batch = 32;
  definition.eval.samples = 160;
  return definition;
}

EvaluationOptions options_of(const std::string& precision = "fp32", int64_t batch = 0) {
  return {at::kCPU, parse_precision(precision, at::kCPU), false, batch};
}

/// Predicts nothing, and remembers how it was called.
class ZeroDenoiser final : public Denoiser {
 public:
  at::Tensor forward(const at::Tensor& x, const at::Tensor& t) override {
    if (fails) throw std::runtime_error("forward failed");
    saw_training = saw_training || is_training();
    saw_gradients = saw_gradients || at::GradMode::is_enabled();
    batches.push_back(x.size(0));
    type = x.scalar_type();
    for (int64_t i = 0; i < t.size(0); ++i) timesteps.push_back(t[i].item<int64_t>());
    return at::zeros_like(x);
  }

  bool fails = false;
  bool saw_training = false;
  bool saw_gradients = false;
  at::ScalarType type = at::kInt;
  std::vector<int64_t> batches;
  std::vector<int64_t> timesteps;
};

reports::Evaluation evaluate_zero(ZeroDenoiser& model, const Definition& definition,
                                  const EvaluationOptions& options = options_of()) {
  const DiffusionProcess process(definition.diffusion, at::kCPU, options.precision.weights);
  return evaluate(model, process, *open_dataset(definition, ""), definition, options);
}

TEST(EvaluationTimesteps, are_the_middles_of_eight_equal_parts) {
  EXPECT_EQ(evaluation_timesteps(1000),
            (std::vector<int64_t>{62, 187, 312, 437, 562, 687, 812, 937}));
  EXPECT_EQ(evaluation_timesteps(8), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

/// The model sees x_t in float32 and the optimum is computed in float64. At small t the noise is a
/// difference of nearly equal numbers with a relative error of 2^-24 / 0.05, which enters the loss
/// squared and linearly with zero mean: 1e-5 leaves room for it.
TEST(Evaluate, the_exact_bayes_denoiser_has_no_excess) {
  for (const char* objective : {"eps", "x0", "v"}) {
    const Definition definition = gmm16_definition(objective);
    const DiffusionProcess process(definition.diffusion, at::kCPU);
    test::BayesDenoiser model(GaussianMixture::gmm16(), process);
    const auto result =
        evaluate(model, process, *open_dataset(definition, ""), definition, options_of());
    ASSERT_TRUE(result.excess_frac.has_value());
    EXPECT_NEAR(*result.excess_frac, 0, 1e-5) << objective;
    ASSERT_EQ(result.optimal_per_timestep.size(), 8U);
    for (size_t j = 0; j < 8; ++j) {
      EXPECT_NEAR(result.per_timestep[j] / result.optimal_per_timestep[j], 1, 1e-4) << objective;
    }
  }
}

TEST(Evaluate, every_other_denoiser_has_an_excess) {
  for (const double scale : {0.9, 1.1}) {
    const Definition definition = gmm16_definition();
    const DiffusionProcess process(definition.diffusion, at::kCPU);
    test::BayesDenoiser model(GaussianMixture::gmm16(), process, scale);
    const auto result =
        evaluate(model, process, *open_dataset(definition, ""), definition, options_of());
    EXPECT_GT(*result.excess_frac, 0.01) << scale;
  }
}

/// Predicting zero for eps costs the mean square of the noise, which the counter generator gives.
TEST(Evaluate, uses_the_fixed_noise_of_each_sample_and_every_timestep_in_turn) {
  const Definition definition = gmm16_definition("eps");
  ZeroDenoiser model;
  const auto result = evaluate_zero(model, definition);
  std::vector<double> per_timestep(8, 0);
  std::vector<float> noise(256);
  for (uint64_t i = 0; i < 160; ++i) {
    CounterRng(5, Stream::kEvalNoise, 0, i).fill_normal(noise);
    for (const float z : noise) per_timestep[i % 8] += double{z} * z / (256.0 * 20);
    ASSERT_EQ(model.timesteps[i], result.timesteps[i % 8]);
  }
  const double loss = std::accumulate(per_timestep.begin(), per_timestep.end(), 0.0) / 8;
  EXPECT_NEAR(result.loss, loss, 1e-12);  // sums in float64 of the same floats
  for (size_t j = 0; j < 8; ++j) EXPECT_NEAR(result.per_timestep[j], per_timestep[j], 1e-12);
}

TEST(Evaluate, weights_the_loss_as_training_does) {
  Definition definition = gmm16_definition("v");
  ZeroDenoiser model;
  const auto result = evaluate_zero(model, definition);
  const DiffusionProcess process(definition.diffusion, at::kCPU);
  double weighted = 0;
  for (size_t j = 0; j < 8; ++j) {
    const double weight = process.buffer("loss_weight")[result.timesteps[j]].item<double>();
    weighted += weight * result.per_timestep[j] / 8;
  }
  EXPECT_NEAR(result.weighted_loss, weighted, 1e-12);  // the same numbers in another order
  EXPECT_NE(result.weighted_loss, result.loss);
}

TEST(Evaluate, does_not_depend_on_the_batch) {
  const Definition definition = gmm16_definition();
  const DiffusionProcess process(definition.diffusion, at::kCPU);
  test::BayesDenoiser model(GaussianMixture::gmm16(), process);
  const auto dataset = open_dataset(definition, "");
  const auto expected = evaluate(model, process, *dataset, definition, options_of("fp32", 160));
  for (const int64_t batch : {1, 7, 64}) {
    const auto result = evaluate(model, process, *dataset, definition, options_of("fp32", batch));
    EXPECT_NEAR(result.loss / expected.loss, 1, 1e-6) << batch;  // float32 predictions
    EXPECT_NEAR(*result.excess_frac, *expected.excess_frac, 1e-6) << batch;
  }
}

TEST(Evaluate, takes_a_training_micro_batch_when_no_batch_is_given) {
  Definition definition = gmm16_definition();
  definition.train.accumulation = 2;
  definition.eval.samples = 40;
  ZeroDenoiser model;
  static_cast<void>(evaluate_zero(model, definition));
  EXPECT_EQ(model.batches, (std::vector<int64_t>{16, 16, 8}));
}

TEST(Evaluate, gives_the_same_bits_again_and_others_for_another_seed) {
  Definition definition = gmm16_definition();
  ZeroDenoiser model;
  const auto first = evaluate_zero(model, definition);
  const auto again = evaluate_zero(model, definition);
  EXPECT_EQ(first.per_timestep, again.per_timestep);
  definition.seed = 6;
  EXPECT_NE(evaluate_zero(model, definition).per_timestep, first.per_timestep);
}

TEST(Evaluate, runs_without_dropout_and_gradients_and_restores_the_mode) {
  for (const bool training : {true, false}) {
    ZeroDenoiser model;
    model.train(training);
    static_cast<void>(evaluate_zero(model, gmm16_definition()));
    EXPECT_FALSE(model.saw_training);
    EXPECT_FALSE(model.saw_gradients);
    EXPECT_EQ(model.is_training(), training);
    EXPECT_TRUE(at::GradMode::is_enabled());
  }
}

TEST(Evaluate, restores_the_mode_when_the_model_throws) {
  ZeroDenoiser model;
  model.train();
  model.fails = true;
  EXPECT_THROW(static_cast<void>(evaluate_zero(model, gmm16_definition())), std::runtime_error);
  EXPECT_TRUE(model.is_training());
  EXPECT_TRUE(at::GradMode::is_enabled());
}

TEST(Evaluate, runs_in_the_precision_it_is_given) {
  ZeroDenoiser model;
  const auto single = evaluate_zero(model, gmm16_definition(), options_of("fp32"));
  EXPECT_EQ(model.type, at::kFloat);
  const auto full = evaluate_zero(model, gmm16_definition(), options_of("fp64"));
  EXPECT_EQ(model.type, at::kDouble);
  EXPECT_NEAR(single.loss / full.loss, 1, 1e-6);  // targets in float32 against float64
}

TEST(Evaluate, knows_no_optimum_for_other_data) {
  Definition definition = gmm16_definition();
  definition.data.name = "synthetic";
  ZeroDenoiser model;
  const auto result = evaluate_zero(model, definition);
  EXPECT_FALSE(result.excess_frac.has_value());
  EXPECT_TRUE(result.optimal_per_timestep.empty());
  EXPECT_GT(result.loss, 0);
}

const Picture kPicture{4, 4, 3, std::vector<uint8_t>(48, 7)};

/// The words of the refusal of `samples` of these data; empty: they are taken.
std::string refusal_of(int64_t samples, const Dataset& dataset, const std::string& data) {
  Definition definition = gmm16_definition();
  definition.data.name = data;
  definition.eval.samples = samples;
  try {
    require_evaluation_samples(definition, dataset);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "";
}

TEST(Evaluate, refuses_more_samples_than_the_test_split_has) {
  EXPECT_EQ(
      refusal_of(80'000, *open_gmm16(gmm16_definition()), "gmm16"),
      "gmm16: eval.samples: 80000, where the test split has 65536 of 131072 images (a multiple "
      "of 8 up to 65536: --set eval.samples=65536)");
}

std::string refusal_of_images(int64_t samples, const std::vector<std::string>& names) {
  const test::TemporaryFolder folder;
  for (const std::string& name : names) folder.write(name, test::encode_png(kPicture));
  Definition definition = gmm16_definition();
  return refusal_of(samples, *open_image_folder(definition, folder.path()), "folder");
}

std::vector<std::string> numbered(const std::string& folder, int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(fmt::format("{}{}.png", folder, i));
  return names;
}

TEST(Evaluate, says_how_many_images_it_needs_where_no_number_of_samples_is_valid) {
  const std::string needed =
      " images (a multiple of 8: --set eval.samples=8 needs at least 80 images, because a tenth of "
      "them is the test split, or folders train/ and test/ with at least 8 images in test/)";
  EXPECT_EQ(refusal_of_images(512, numbered("", 30)),
            "gmm16: eval.samples: 512, where the test split has 3 of 30" + needed);
  EXPECT_EQ(refusal_of_images(8, numbered("", 79)),
            "gmm16: eval.samples: 8, where the test split has 7 of 79" + needed);
  EXPECT_EQ(refusal_of_images(8, numbered("", 80)), "");
}

TEST(Evaluate, says_which_number_of_samples_the_images_allow) {
  EXPECT_EQ(refusal_of_images(512, numbered("", 175)),
            "gmm16: eval.samples: 512, where the test split has 17 of 175 images (a multiple of 8 "
            "up to 16: --set eval.samples=16; or at least 5120 images, because a tenth of them is "
            "the test split, or folders train/ and test/ with at least 512 images in test/)");
  EXPECT_EQ(refusal_of_images(16, numbered("", 175)), "");
}

TEST(Evaluate, names_the_folder_that_has_too_few_images) {
  std::vector<std::string> names = numbered("train/", 90);
  const std::vector<std::string> held_out = numbered("valid/", 7);
  names.insert(names.end(), held_out.begin(), held_out.end());
  EXPECT_EQ(refusal_of_images(8, names),
            "gmm16: eval.samples: 8, where the test split has 7 of 97 images (a multiple of 8: "
            "--set eval.samples=8 needs at least 8 images in valid/)");
}

}  // namespace
}  // namespace noisemark::suite
