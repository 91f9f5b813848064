#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "suite/data/loader.h"
#include "suite/io/safetensors.h"
#include "suite/run/single_run.h"
#include "tests/suite/train/tiny.h"

// What only a GPU has: loss scaling, tf32, page-locked batches.
namespace noisemark::suite {
namespace {

using test::tiny_definition;
using test::TinySession;

const at::Device kGpu("cuda:0");

/// The tensors that the scaler is made of, shared with it.
std::map<std::string, at::Tensor> state_of(const LossScaler& scaler) {
  std::map<std::string, at::Tensor> state;
  for (const auto& [name, tensor] : scaler.state()) state[name] = tensor;
  return state;
}

TEST(GpuTraining, fp16_stays_finite_and_lowers_the_loss) {
  Definition definition = tiny_definition();
  definition.train.steps = 40;
  definition.train.batch = 8;
  const TinySession session(definition, "fp16", kGpu);
  double first = 0;
  double last = 0;
  for (int step = 0; step < 40; ++step) {
    const double loss = session.trainer->step().loss;
    ASSERT_TRUE(std::isfinite(loss)) << step;
    (step < 10 ? first : last) += step < 10 || step >= 30 ? loss : 0;
  }
  EXPECT_LT(last, 0.9 * first);
  for (const auto& [name, weight] : session.trainer->weights()) {
    EXPECT_EQ(weight.scalar_type(), at::kFloat) << name;
    EXPECT_TRUE(at::isfinite(weight).all().item<bool>()) << name;
  }
}

TEST(GpuTraining, an_overflowing_scale_is_halved_until_steps_count_again) {
  const TinySession session(tiny_definition(), "fp16", kGpu);
  const LossScaler& scaler = session.trainer->scaler().value();
  constexpr double kTooLarge = 0x1p100;
  state_of(scaler)["scaler.scale"].fill_(kTooLarge);
  const std::string before = tensors_sha256(session.trainer->weights());
  (void)session.trainer->step();
  EXPECT_EQ(scaler.current_scale(), kTooLarge / 2);
  EXPECT_EQ(scaler.skipped_steps(), 1);
  EXPECT_EQ(tensors_sha256(session.trainer->weights()), before) << "a skipped step changes nothing";
  state_of(scaler)["scaler.scale"].fill_(1024);
  (void)session.trainer->step();
  EXPECT_EQ(scaler.current_scale(), 1024);
  EXPECT_EQ(scaler.skipped_steps(), 1);
  EXPECT_NE(tensors_sha256(session.trainer->weights()), before);
}

TEST(GpuTraining, the_scale_doubles_after_2000_good_steps) {
  const TinySession session(tiny_definition(), "fp16", kGpu);
  const LossScaler& scaler = session.trainer->scaler().value();
  state_of(scaler)["scaler.scale"].fill_(1024);
  state_of(scaler)["scaler.growth"].fill_(1999);
  (void)session.trainer->step();
  EXPECT_EQ(scaler.current_scale(), 2048);
}

/// Largest error of a product of float32 matrices, relative to the largest value.
double error_of_product(const std::string& precision) {
  Variant variant;
  variant.threads = 1;
  variant.device = kGpu;
  variant.precision = parse_precision(precision, kGpu);
  apply_variant(variant);
  at::manual_seed(1);
  const at::Tensor a = at::randn({512, 512}).to(kGpu);
  const at::Tensor exact = at::matmul(a.to(at::kDouble), a.to(at::kDouble));
  const at::Tensor error = (at::matmul(a, a).to(at::kDouble) - exact).abs().max();
  return error.item<double>() / exact.abs().max().item<double>();
}

TEST(GpuPrecision, tf32_rounds_what_fp32_keeps) {
  EXPECT_LT(error_of_product("fp32"), 1e-5);
  // tf32 has 10 bits of fraction; sums of 512 products average some of the error away.
  EXPECT_GT(error_of_product("tf32"), 2e-5);
  EXPECT_LT(error_of_product("tf32"), 1e-2);
  EXPECT_LT(error_of_product("fp32"), 1e-5) << "a tf32 run leaves nothing behind";
}

c10::Stream stream() {
  return c10::impl::VirtualGuardImpl(at::kCUDA).getStream(kGpu);
}

/// Work that a GPU needs far longer for than the CPU needs to hand it out.
void occupy_gpu() {
  const at::NoGradGuard no_grad;
  at::Tensor a = at::randn({8192, 8192}, at::device(kGpu));
  for (int i = 0; i < 20; ++i) a = at::matmul(a, a).mul(1e-5);
}

TEST(GpuLoader, batches_are_page_locked_and_copied_without_waiting) {
  Definition definition = tiny_definition();
  definition.train.batch = 512;
  Loader loader(open_dataset(definition, ""), definition, {.pinned = true, .last_step = 2});
  (void)loader.next();
  const Batch batch = loader.next();
  for (const at::Tensor& tensor : {batch.images, batch.timesteps, batch.noise}) {
    EXPECT_TRUE(tensor.is_pinned());
  }
  occupy_gpu();
  const at::Tensor images = batch.images.to(kGpu, /*non_blocking=*/true);
  c10::Event copied(at::kCUDA);
  copied.record(stream());
  EXPECT_FALSE(copied.query()) << "the copy waited for the work before it";
  copied.synchronize();
  EXPECT_TRUE(at::equal(images.cpu(), batch.images));
}

/// Gives the GPU work before the data phase and looks whether it is still busy after.
class DataPhase : public StepObserver {
 public:
  void on_step_begin(int64_t) override {}
  void on_phase_begin(Phase phase) override {
    if (phase == Phase::kData) occupy_gpu();
  }
  void on_phase_end(Phase phase) override {
    if (phase != Phase::kData) return;
    c10::Event copied(at::kCUDA);
    copied.record(stream());
    waited = copied.query();
  }
  void on_step_end(int64_t) override {}
  bool waited = true;
};

TEST(GpuLoader, a_training_step_does_not_wait_for_its_batch_to_be_copied) {
  Definition definition = tiny_definition();
  definition.train.batch = 512;
  const TinySession session(definition, "fp32", kGpu);
  (void)session.trainer->step();  // starts the loader, and allocates what later steps use again
  (void)session.trainer->step();
  DataPhase observer;
  (void)session.trainer->step({&observer});
  EXPECT_FALSE(observer.waited);
}

}  // namespace
}  // namespace noisemark::suite
