#include "suite/train/fault.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <memory>

#include "baselines/ops.h"
#include "memopt/modes/mode.h"
#include "suite/config/catalogue.h"
#include "suite/data/dataset.h"
#include "suite/io/safetensors.h"
#include "suite/models/denoiser.h"
#include "suite/train/trainer.h"

namespace noisemark::suite {
namespace {

Fault biased(double factor) {
  Fault fault;
  fault.loss_factor = factor;
  return fault;
}

struct FaultyTraining {
  std::vector<double> losses;
  std::vector<double> norms;  ///< norms of gradients, before clipping
  std::string weights;
};

FaultyTraining train(const Fault& fault, int64_t accumulation = 1) {
  const Definition definition =
      load_definition("gmm16-ho", "cpu",
                      {"train.batch=4", "train.steps=3", "model.dim=8", "model.groups=4",
                       "train.accumulation=" + std::to_string(accumulation)});
  TrainerOptions options;
  options.precision = parse_precision("fp64", at::kCPU);
  options.fault = fault;
  at::manual_seed(definition.seed);
  const std::unique_ptr<memopt::Mode> mode = memopt::make_mode("none");
  Trainer trainer(definition, make_denoiser(definition.model, baselines::plain_ops()),
                  open_dataset(definition, ""), *mode, options);
  FaultyTraining trained;
  for (int step = 0; step < 3; ++step) {
    const StepRecord record = trainer.step();
    trained.losses.push_back(record.loss);
    trained.norms.push_back(*record.grad_norm);
  }
  trained.weights = tensors_sha256(trainer.weights());
  return trained;
}

TEST(Fault, says_what_it_breaks) {
  EXPECT_EQ(fault_words({}), "");
  EXPECT_EQ(fault_words({int64_t{16} << 20, 1.01, 1}),
            "16.00 MiB leaked in every forward pass, loss times 1.01, 1 B of a weight not counted");
  Fault halved;
  halved.halved_from = 3;
  EXPECT_EQ(fault_words(halved), "half of the batch from step 3 on");
  Fault saving;
  saving.redrawn_dropout = true;
  saving.coarse_saving = true;
  EXPECT_EQ(fault_words(saving),
            "masks of dropout drawn again in backward, activations at 2 bits without scales of "
            "groups");
  Fault step;
  step.undivided_loss = true;
  step.late_average = true;
  EXPECT_EQ(fault_words(step), "loss not divided by the micro-batches, average one step behind");
}

TEST(Fault, of_the_loss_multiplies_loss_and_gradient) {
  for (const int64_t accumulation : {1, 2}) {
    const FaultyTraining sound = train({}, accumulation);
    const FaultyTraining broken = train(biased(1.01), accumulation);
    // The first step starts from the same weights; fp64 rounds a product to 1.1e-16.
    EXPECT_NEAR(broken.losses[0] / sound.losses[0], 1.01, 1e-14);
    EXPECT_NEAR(broken.norms[0] / sound.norms[0], 1.01, 1e-12);
  }
}

TEST(Fault, that_halves_batches_changes_the_training_from_its_step_on) {
  Fault halved;
  halved.halved_from = 1;
  const FaultyTraining sound = train({});
  const FaultyTraining broken = train(halved);
  EXPECT_EQ(broken.losses[0], sound.losses[0]);
  EXPECT_NE(broken.losses[1], sound.losses[1]);
}

TEST(Fault, that_only_leaks_changes_no_bit_of_the_training) {
  Fault leak;
  leak.leaked_bytes = 4096;
  leak.lost_bytes = 1;
  const FaultyTraining sound = train({});
  const FaultyTraining broken = train(leak);
  EXPECT_EQ(broken.losses, sound.losses);
  EXPECT_EQ(broken.norms, sound.norms);
  EXPECT_EQ(broken.weights, sound.weights);
}

}  // namespace
}  // namespace noisemark::suite
