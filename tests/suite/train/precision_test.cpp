#include "suite/train/precision.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "reports/base/error.h"
#include "suite/train/checkpoint.h"
#include "tests/suite/train/tiny.h"

namespace noisemark::suite {
namespace {

TEST(Precision, refuses_what_the_cpu_does_not_have_and_names_what_is_accepted) {
  for (const char* name : {"tf32", "fp16", "bf61"}) {
    try {
      (void)parse_precision(name, at::kCPU);
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      EXPECT_NE(std::string(error.what()).find("bf16"), std::string::npos) << error.what();
    }
  }
}

TEST(AutocastGuard, is_on_only_while_alive_and_only_for_bf16) {
  {
    const AutocastGuard guard(parse_precision("bf16", at::kCPU), at::kCPU);
    EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
    EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), at::kBFloat16);
  }
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  const AutocastGuard guard(parse_precision("fp32", at::kCPU), at::kCPU);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST(LossScaler, unscales_and_keeps_its_scale_after_a_good_step) {
  LossScaler scaler(at::kCPU);
  const at::Tensor gradient = scaler.scale(at::full({3}, 0.5));
  const at::Tensor found = scaler.unscale({gradient});
  scaler.update(found);
  EXPECT_EQ(gradient[0].item<double>(), 0.5);
  EXPECT_EQ(found.item<double>(), 0.0);
  EXPECT_EQ(scaler.current_scale(), 65536.0);
  EXPECT_EQ(scaler.skipped_steps(), 0);
}

TEST(LossScaler, halves_the_scale_and_counts_a_skip_after_an_overflow) {
  LossScaler scaler(at::kCPU);
  const at::Tensor gradient = at::full({3}, std::numeric_limits<float>::infinity());
  const at::Tensor found = scaler.unscale({gradient});
  scaler.update(found);
  EXPECT_EQ(found.item<double>(), 1.0);
  EXPECT_EQ(scaler.current_scale(), 32768.0);
  EXPECT_EQ(scaler.skipped_steps(), 1);
}

TEST(LossScaler,
     doubles_after_an_interval_of_good_steps_in_a_row_and_counts_from_zero_after_a_bad_one) {
  LossScaler scaler(at::kCPU, {.initial = 8, .growth = 2, .backoff = 0.5, .interval = 3});
  const auto step = [&](bool good) {
    const double infinity = std::numeric_limits<double>::infinity();
    scaler.update(scaler.unscale({at::full({2}, good ? 1.0 : infinity)}));
    return scaler.current_scale();
  };
  std::vector<double> scales;
  for (const bool good : {true, true, false, true, true, true, true}) scales.push_back(step(good));
  EXPECT_EQ(scales, (std::vector<double>{8, 8, 4, 4, 4, 8, 8}));
  EXPECT_EQ(scaler.skipped_steps(), 1);
}

TEST(LossScaler, one_value_that_is_not_finite_is_enough_wherever_it_is) {
  for (const double bad :
       {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    LossScaler scaler(at::kCPU);
    const at::Tensor last = at::ones({1000});
    last[999] = bad;
    EXPECT_EQ(scaler.unscale({at::ones({7}), last}).item<double>(), 1.0) << bad;
  }
}

// The trainer's part of it is the same on every device: here without autocast, so that float32 with
// and without scaling can be compared.
class ScaledTraining : public ::testing::Test {
 protected:
  static test::TinySession session(const Fault& fault = {}) {
    Precision precision = parse_precision("fp32", at::kCPU);
    precision.loss_scaling = true;
    TrainerOptions options = test::TinySession::options_of(precision, at::kCPU);
    options.fault = fault;
    Definition definition = test::tiny_definition();
    definition.train.steps = 20;  // enough for the scale to be halved to the least
    return {definition, options};
  }

  /// A loss so much larger that with the largest scale every gradient is infinite.
  static test::TinySession session_of_large_losses() {
    Fault fault;
    fault.loss_factor = 0x1p20;
    return session(fault);
  }
  static constexpr double kTooLarge = 0x1p127;

  static std::map<std::string, at::Tensor> state_of(const test::TinySession& session) {
    std::map<std::string, at::Tensor> state;
    for (const auto& [name, tensor] : session.trainer->scaler()->state()) state[name] = tensor;
    return state;
  }

  static std::string weights_of(const test::TinySession& session) {
    return tensors_sha256(session.trainer->weights());
  }
  static std::string optimizer_of(const test::TinySession& session) {
    return tensors_sha256(session.trainer->optimizer_state());
  }
};

TEST_F(ScaledTraining, by_a_power_of_two_changes_no_bit) {
  const test::TinySession scaled = session();
  const test::TinySession plain(test::tiny_definition());
  for (int step = 0; step < 4; ++step) {
    EXPECT_EQ(scaled.trainer->step().loss, plain.trainer->step().loss);
  }
  EXPECT_EQ(weights_of(scaled), weights_of(plain));
  EXPECT_EQ(optimizer_of(scaled), optimizer_of(plain));
}

TEST_F(ScaledTraining, an_overflow_skips_the_step_and_the_optimizers_count_of_it) {
  const test::TinySession scaled = session_of_large_losses();
  (void)scaled.trainer->step();
  const std::string weights = weights_of(scaled);
  const std::string optimizer = optimizer_of(scaled);
  state_of(scaled)["scaler.scale"].fill_(kTooLarge);
  (void)scaled.trainer->step();
  EXPECT_EQ(weights_of(scaled), weights);
  EXPECT_EQ(optimizer_of(scaled), optimizer);
  EXPECT_EQ(scaled.trainer->scaler()->skipped_steps(), 1);
  EXPECT_EQ(scaled.trainer->scaler()->current_scale(), kTooLarge / 2);
  EXPECT_EQ(scaled.trainer->next_step(), 2) << "the batch is used up all the same";
}

TEST_F(ScaledTraining, a_loss_that_is_not_finite_skips_the_step_and_halves_the_scale) {
  const test::TinySession scaled = session();
  (void)scaled.trainer->step();
  const std::string weights = weights_of(scaled);
  const std::string optimizer = optimizer_of(scaled);
  const at::Tensor weight = scaled.trainer->parameters().front().second.detach();
  const at::Tensor kept = weight.clone();
  weight.fill_(std::numeric_limits<float>::quiet_NaN());
  EXPECT_FALSE(std::isfinite(scaled.trainer->step().loss));
  weight.copy_(kept);
  EXPECT_EQ(scaled.trainer->scaler()->current_scale(), LossScaling().initial / 2);
  EXPECT_EQ(scaled.trainer->scaler()->skipped_steps(), 1);
  EXPECT_EQ(weights_of(scaled), weights);
  EXPECT_EQ(optimizer_of(scaled), optimizer);
  EXPECT_TRUE(std::isfinite(scaled.trainer->step().loss)) << "training goes on";
  EXPECT_EQ(scaled.trainer->scaler()->skipped_steps(), 1);
  EXPECT_NE(weights_of(scaled), weights);
}

TEST_F(ScaledTraining, ends_where_a_loss_is_not_finite_at_the_least_scale_too) {
  Fault fault;
  fault.loss_factor = std::numeric_limits<double>::infinity();
  const test::TinySession scaled = session(fault);
  const std::string weights = weights_of(scaled);
  const auto halvings = static_cast<int64_t>(std::log2(LossScaling().initial / kLeastScale));
  for (int64_t step = 0; step < halvings; ++step) (void)scaled.trainer->step();
  EXPECT_EQ(scaled.trainer->scaler()->current_scale(), kLeastScale);
  EXPECT_EQ(scaled.trainer->scaler()->skipped_steps(), halvings);
  try {
    (void)scaled.trainer->step();
    FAIL() << "a loss that no scale makes finite went on";
  } catch (const NonFinite& error) {
    EXPECT_EQ(error.step(), halvings);
    EXPECT_EQ(error.tensor(), "output of aten::mul in forward");
  }
  EXPECT_EQ(weights_of(scaled), weights);
}

TEST_F(ScaledTraining, goes_on_halving_while_gradients_alone_are_not_finite) {
  const test::TinySession scaled = session();
  scaled.trainer->parameters().front().second.register_hook(
      [](const at::Tensor& gradient) { return gradient * std::numeric_limits<float>::infinity(); });
  state_of(scaled)["scaler.scale"].fill_(kLeastScale / 2);
  EXPECT_TRUE(std::isfinite(scaled.trainer->step().loss));
  EXPECT_EQ(scaled.trainer->scaler()->current_scale(), kLeastScale / 4);
}

TEST_F(ScaledTraining, goes_on_from_a_checkpoint_with_the_scale_its_count_and_the_same_bits) {
  const std::string path =
      (std::filesystem::path(::testing::TempDir()) / "scaled_training.safetensors").string();
  const CheckpointKey key{"definition", "none-plain-fp16", ""};
  const test::TinySession whole = session_of_large_losses();
  state_of(whole)["scaler.scale"].fill_(kTooLarge);  // steps are skipped before the checkpoint
  for (int step = 0; step < 3; ++step) (void)whole.trainer->step();
  state_of(whole)["scaler.scale"].fill_(1024);
  state_of(whole)["scaler.growth"].fill_(1999);  // the scale grows right after it
  write_checkpoint(path, *whole.trainer, key, {});
  const test::TinySession resumed = session_of_large_losses();
  (void)read_checkpoint(path, *resumed.trainer, key);
  std::filesystem::remove(path);
  EXPECT_EQ(resumed.trainer->scaler()->skipped_steps(), 3);
  for (int step = 0; step < 2; ++step) {
    (void)whole.trainer->step();
    (void)resumed.trainer->step();
    EXPECT_EQ(resumed.trainer->scaler()->current_scale(), 2048) << step;
  }
  EXPECT_EQ(weights_of(resumed), weights_of(whole));
  EXPECT_EQ(optimizer_of(resumed), optimizer_of(whole));
  EXPECT_EQ(tensors_sha256(resumed.trainer->scaler()->state()),
            tensors_sha256(whole.trainer->scaler()->state()));
}

}  // namespace
}  // namespace noisemark::suite
