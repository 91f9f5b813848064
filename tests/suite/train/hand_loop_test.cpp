#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "suite/data/loader.h"
#include "suite/random/counter_rng.h"
#include "suite/train/trainer.h"
#include "tests/suite/train/tiny.h"

// The trainer beside the loop that one would write by hand with the same parts.
namespace noisemark::suite {
namespace {

constexpr int64_t kHandSteps = 10;

struct Trained {
  std::vector<double> losses;
  std::string weights;
  std::string averages;
};

std::shared_ptr<Denoiser> fresh_model(const Definition& definition) {
  at::manual_seed(definition.seed);
  return make_denoiser(definition.model, baselines::plain_ops());
}

Trained train_by_hand(const Definition& definition) {
  const auto model = fresh_model(definition);
  const DiffusionProcess process(definition.diffusion, at::kCPU);
  Adam adam(named_parameters(*model), definition.optimizer);
  Ema ema(named_parameters(*model), definition.ema);
  LoaderOptions options;
  options.last_step = kHandSteps;
  Loader loader(open_dataset(definition, ""), definition, options);
  Trained trained;
  for (uint64_t step = 0; step < kHandSteps; ++step) {
    const Batch batch = loader.next();
    at::manual_seed(derive_seed(definition.seed, Stream::kDropout, step));
    const at::Tensor noisy = process.q_sample(batch.images, batch.timesteps, batch.noise);
    const at::Tensor target = process.target(batch.images, batch.timesteps, batch.noise);
    const at::Tensor loss =
        process.training_loss(model->forward(noisy, batch.timesteps), target, batch.timesteps);
    loss.backward();
    clip_gradients(adam.gradients(), definition.optimizer.clip_norm, norm_of(adam.gradients()));
    adam.step();
    adam.release_gradients();
    ema.update();
    trained.losses.push_back(loss.item<double>());
  }
  trained.weights = tensors_sha256(named_parameters(*model));
  trained.averages = tensors_sha256(ema.shadows());
  return trained;
}

Trained train_by_trainer(const Definition& definition) {
  const test::TinySession session(definition);
  Trained trained;
  for (int64_t step = 0; step < kHandSteps; ++step) {
    trained.losses.push_back(session.trainer->step().loss);
  }
  trained.weights = tensors_sha256(session.trainer->parameters());
  trained.averages = tensors_sha256(session.trainer->ema().shadows());
  return trained;
}

class HandLoop : public testing::TestWithParam<EmaConfig> {};

TEST_P(HandLoop, gives_the_trainers_losses_weights_and_averages_bit_for_bit) {
  Definition definition = test::tiny_definition();
  definition.train.steps = kHandSteps;
  definition.ema = GetParam();
  const Trained by_hand = train_by_hand(definition);
  const Trained by_trainer = train_by_trainer(definition);
  EXPECT_EQ(by_trainer.losses, by_hand.losses);
  EXPECT_EQ(by_trainer.weights, by_hand.weights);
  EXPECT_EQ(by_trainer.averages, by_hand.averages);
  EXPECT_NE(by_trainer.averages, by_trainer.weights);
}

INSTANTIATE_TEST_SUITE_P(Averages, HandLoop, testing::ValuesIn(test::tiny_averages()),
                         [](const auto& info) { return info.param.kind; });

}  // namespace
}  // namespace noisemark::suite
