#include "suite/train/trainer.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "suite/io/safetensors.h"
#include "tests/suite/train/doubtful_mode.h"
#include "tests/suite/train/tiny.h"

namespace noisemark::suite {
namespace {

using test::tiny_definition;
using test::TinySession;

std::string weights_after(const Definition& definition, int64_t steps) {
  const TinySession session(definition);
  while (session.trainer->next_step() < steps) (void)session.trainer->step();
  return tensors_sha256(session.trainer->weights());
}

TEST(Trainer, repeats_itself_bit_for_bit) {
  EXPECT_EQ(weights_after(tiny_definition(), 4), weights_after(tiny_definition(), 4));
}

TEST(Trainer, another_seed_gives_other_weights) {
  Definition other = tiny_definition();
  other.seed = 8;
  EXPECT_NE(weights_after(tiny_definition(), 2), weights_after(other, 2));
}

TEST(Trainer, lowers_the_loss) {
  Definition definition = tiny_definition();
  definition.train.steps = 40;
  definition.train.batch = 8;
  const TinySession session(definition);
  std::vector<double> losses;
  while (session.trainer->next_step() < 40) losses.push_back(session.trainer->step().loss);
  const auto mean = [&](size_t from) {
    double sum = 0;
    for (size_t i = from; i < from + 10; ++i) sum += losses[i];
    return sum / 10;
  };
  EXPECT_LT(mean(30), 0.9 * mean(0));
}

TEST(Trainer, micro_batches_give_the_gradient_of_the_whole_batch) {
  Definition whole = tiny_definition();
  whole.model.dropout = 0;  // its masks do depend on how the batch is split
  whole.optimizer.clip_norm = 0;
  Definition split = whole;
  split.train.accumulation = 2;
  const TinySession a(whole, "fp64");
  const TinySession b(split, "fp64");
  const double loss_a = a.trainer->step().loss;
  const double loss_b = b.trainer->step().loss;
  // Sums in another order, in float64; Adam's first step divides by |gradient|, which amplifies the
  // rounding of gradients near zero.
  EXPECT_NEAR(loss_a, loss_b, 1e-12);
  const NamedTensors weights_a = a.trainer->weights();
  const NamedTensors weights_b = b.trainer->weights();
  for (size_t i = 0; i < weights_a.size(); ++i) {
    EXPECT_TRUE(at::allclose(weights_a[i].second, weights_b[i].second, 1e-6, 1e-7))
        << weights_a[i].first;
  }
}

TEST(Trainer, names_the_first_non_finite_tensor_and_leaves_the_weights_alone) {
  const TinySession session(tiny_definition());
  const NamedTensors weights = session.trainer->weights();
  {
    const at::NoGradGuard no_grad;
    weights[3].second.detach().fill_(std::numeric_limits<float>::quiet_NaN());
  }
  const std::string before = tensors_sha256(session.trainer->weights());
  try {
    (void)session.trainer->step();
    FAIL() << "a NaN weight went unnoticed";
  } catch (const NonFinite& error) {
    EXPECT_EQ(error.tensor(), "weight " + weights[3].first);
    EXPECT_EQ(error.step(), 0);
  }
  EXPECT_EQ(tensors_sha256(session.trainer->weights()), before);
}

TEST(Trainer, stops_at_a_non_finite_gradient_of_a_finite_loss_without_clipping_too) {
  Definition definition = tiny_definition();
  definition.optimizer.clip_norm = 0;
  const TinySession session(definition);
  const auto [name, parameter] = session.trainer->parameters()[3];
  parameter.register_hook(
      [](const at::Tensor& gradient) { return gradient * std::numeric_limits<float>::infinity(); });
  const std::string before = tensors_sha256(session.trainer->weights());
  try {
    (void)session.trainer->step();
    FAIL() << "an infinite gradient went unnoticed";
  } catch (const NonFinite& error) {
    EXPECT_EQ(error.tensor(), "gradient of " + name);
  }
  EXPECT_EQ(tensors_sha256(session.trainer->weights()), before);
}

std::string first_non_finite_of(const Definition& definition, std::shared_ptr<Denoiser> model) {
  const auto mode = memopt::make_mode("none");
  TrainerOptions options;
  options.precision = parse_precision("fp32", at::kCPU);
  Trainer trainer(definition, std::move(model), open_dataset(definition, ""), *mode, options);
  try {
    (void)trainer.step();
  } catch (const NonFinite& error) {
    return error.tensor();
  }
  return "none";
}

/// A real network, of whose forwards number `which` (from 0) of every `period` overflows.
class Overflowing : public Denoiser {
 public:
  Overflowing(const ModelConfig& config, int which, int period)
      : real_(register_module("real", make_denoiser(config, baselines::plain_ops()))),
        which_(which),
        period_(period) {}

  at::Tensor forward(const at::Tensor& x, const at::Tensor& t) override {
    const at::Tensor prediction = real_->forward(x, t);
    if (calls_++ % period_ != which_) return prediction;
    return prediction.mul(1e38).mul(1e38);
  }

 private:
  std::shared_ptr<Denoiser> real_;
  int which_;
  int period_;
  int calls_ = 0;
};

std::string first_non_finite_of(const Definition& definition, int overflowing_forward, int period) {
  return first_non_finite_of(
      definition, std::make_shared<Overflowing>(definition.model, overflowing_forward, period));
}

TEST(Trainer, names_the_operator_of_an_overflow_in_forward_and_its_micro_batch) {
  Definition definition = tiny_definition();
  EXPECT_EQ(first_non_finite_of(definition, 0, 1), "output of aten::mul in forward");
  definition.train.accumulation = 2;
  EXPECT_EQ(first_non_finite_of(definition, 0, 2),
            "output of aten::mul in forward of micro-batch 1 of 2");
  EXPECT_EQ(first_non_finite_of(definition, 1, 2),
            "output of aten::mul in forward of micro-batch 2 of 2");
}

TEST(Trainer, names_what_it_has_of_an_overflow_that_does_not_repeat) {
  constexpr int kOnce = 1000;
  Definition definition = tiny_definition();
  EXPECT_EQ(first_non_finite_of(definition, 0, kOnce), "prediction");
  definition.train.accumulation = 2;
  EXPECT_EQ(first_non_finite_of(definition, 0, kOnce), "loss of micro-batch 1 of 2");
  EXPECT_EQ(first_non_finite_of(definition, 1, kOnce), "prediction of micro-batch 2 of 2");
}

/// A real network whose prediction is so far off that its square overflows, while twice itself, the
/// gradient, does not.
class FarOff : public Denoiser {
 public:
  explicit FarOff(const ModelConfig& config)
      : real_(register_module("real", make_denoiser(config, baselines::plain_ops()))) {}

  at::Tensor forward(const at::Tensor& x, const at::Tensor& t) override {
    return real_->forward(x, t) + 1e20;
  }

 private:
  std::shared_ptr<Denoiser> real_;
};

TEST(Trainer, skips_a_scaled_step_whose_loss_alone_is_not_finite) {
  const Definition definition = tiny_definition();
  const auto mode = memopt::make_mode("none");
  TrainerOptions options;
  options.precision = parse_precision("fp32", at::kCPU);
  options.precision.loss_scaling = true;
  Trainer trainer(definition, std::make_shared<FarOff>(definition.model),
                  open_dataset(definition, ""), *mode, options);
  const std::string before = tensors_sha256(trainer.optimizer_state());
  EXPECT_FALSE(std::isfinite(trainer.step().loss));
  EXPECT_EQ(trainer.scaler()->skipped_steps(), 1);
  EXPECT_EQ(tensors_sha256(trainer.optimizer_state()), before);
}

/// Four factors, read in the order entry, first, middle, last and listed in another. What flows
/// back past the last one is multiplied by `spread`.
class Factors : public Denoiser {
 public:
  explicit Factors(float spread) : spread_(spread) {
    for (const char* name : {"first", "middle", "entry", "last"}) {
      register_parameter(name, at::ones({1}));
    }
  }

  at::Tensor forward(const at::Tensor& x, const at::Tensor& /*t*/) override {
    const auto factors = named_parameters();
    const at::Tensor middle = x * factors["entry"] * factors["first"] * factors["middle"];
    middle.register_hook([this](const at::Tensor& gradient) { return gradient * spread_; });
    return middle * factors["last"];
  }

 private:
  float spread_;
};

TEST(Trainer, names_the_gradient_where_an_overflow_began_and_not_those_it_spread_to) {
  Definition definition = tiny_definition();
  for (const float spread :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (const double clip_norm : {0.0, 1.0}) {
      definition.optimizer.clip_norm = clip_norm;
      EXPECT_EQ(first_non_finite_of(definition, std::make_shared<Factors>(spread)),
                "gradient of middle")
          << spread << ", clipped at " << clip_norm;
    }
  }
}

TEST(Trainer, names_the_norm_where_each_gradient_is_finite_and_it_is_not) {
  const TinySession session(tiny_definition());
  for (const auto& [name, parameter] : session.trainer->parameters()) {
    parameter.register_hook([](const at::Tensor& gradient) {
      return at::full_like(gradient, std::numeric_limits<float>::max());
    });
  }
  try {
    (void)session.trainer->step();
    FAIL() << "an infinite norm went unnoticed";
  } catch (const NonFinite& error) {
    EXPECT_EQ(error.tensor(), "norm of the gradients");
  }
}

TEST(Trainer, leaves_the_weights_alone_where_the_mode_finds_a_gradient_wrong_after_backward) {
  constexpr int64_t kWrong = 2;
  const TinySession session(tiny_definition(),
                            TinySession::options_of(parse_precision("fp32", at::kCPU), at::kCPU),
                            std::make_unique<test::DoubtfulMode>(kWrong));
  for (int64_t step = 0; step < kWrong; ++step) (void)session.trainer->step();
  const std::string weights = tensors_sha256(session.trainer->weights());
  const std::string optimizer = tensors_sha256(session.trainer->optimizer_state());
  EXPECT_THROW((void)session.trainer->step(), c10::Error);
  EXPECT_EQ(tensors_sha256(session.trainer->weights()), weights);
  EXPECT_EQ(tensors_sha256(session.trainer->optimizer_state()), optimizer);
}

class PhaseLog : public StepObserver {
 public:
  void on_step_begin(int64_t) override { log += "("; }
  void on_phase_begin(Phase phase) override { log += std::string(phase_name(phase)) + " "; }
  void on_phase_end(Phase) override {}
  void on_step_end(int64_t) override { log += ")"; }
  std::string log;
};

TEST(Trainer, tells_observers_every_phase_in_order) {
  Definition definition = tiny_definition();
  definition.train.accumulation = 2;
  const TinySession session(definition);
  PhaseLog observer;
  (void)session.trainer->step({&observer});
  EXPECT_EQ(observer.log, "(data forward backward forward backward optimizer ema )");
}

TEST(Trainer, bf16_trains_with_weights_in_fp32) {
  const TinySession session(tiny_definition(), "bf16");
  EXPECT_TRUE(std::isfinite(session.trainer->step().loss));
  for (const auto& [name, weight] : session.trainer->weights()) {
    EXPECT_EQ(weight.scalar_type(), at::kFloat) << name;
  }
}

}  // namespace
}  // namespace noisemark::suite
