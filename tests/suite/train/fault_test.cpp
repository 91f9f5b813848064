#include "suite/train/fault.h"

#include <gtest/gtest.h>

#include "suite/io/safetensors.h"
#include "tests/suite/train/tiny.h"

namespace noisemark::suite {
namespace {

using test::tiny_definition;
using test::TinySession;

Fault biased(double factor) {
  Fault fault;
  fault.loss_factor = factor;
  return fault;
}

struct Trained {
  std::vector<double> losses;
  std::vector<double> norms;  ///< of gradients, before clipping
  std::string weights;
};

Trained train(const Fault& fault, int64_t accumulation = 1) {
  Definition definition = tiny_definition();
  definition.train.accumulation = accumulation;
  const TinySession session(definition, "fp64", at::kCPU, fault);
  Trained trained;
  for (int step = 0; step < 3; ++step) {
    const StepRecord record = session.trainer->step();
    trained.losses.push_back(record.loss);
    trained.norms.push_back(*record.grad_norm);
  }
  trained.weights = tensors_sha256(session.trainer->weights());
  return trained;
}

TEST(Fault, says_what_it_breaks) {
  EXPECT_EQ(fault_words({}), "");
  EXPECT_EQ(fault_words({int64_t{16} << 20, 1.01, 1}),
            "16.00 MiB leaked in every forward pass, loss times 1.01, 1 B of a weight not counted");
}

TEST(Fault, of_the_loss_multiplies_loss_and_gradient) {
  for (const int64_t accumulation : {1, 2}) {
    const Trained sound = train({}, accumulation);
    const Trained broken = train(biased(1.01), accumulation);
    // The first step starts from the same weights; fp64 rounds a product to 1.1e-16.
    EXPECT_NEAR(broken.losses[0] / sound.losses[0], 1.01, 1e-14);
    EXPECT_NEAR(broken.norms[0] / sound.norms[0], 1.01, 1e-12);
  }
}

TEST(Fault, that_only_leaks_changes_no_bit_of_the_training) {
  Fault leak;
  leak.leaked_bytes = 4096;
  leak.lost_bytes = 1;
  const Trained sound = train({});
  const Trained broken = train(leak);
  EXPECT_EQ(broken.losses, sound.losses);
  EXPECT_EQ(broken.norms, sound.norms);
  EXPECT_EQ(broken.weights, sound.weights);
}

}  // namespace
}  // namespace noisemark::suite
