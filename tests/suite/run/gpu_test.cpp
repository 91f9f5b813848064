#include <ATen/DeviceAccelerator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "baselines/device_parts.h"
#include "memopt/accounting/allocation_source.h"
#include "reports/base/error.h"
#include "suite/data/loader.h"
#include "suite/io/safetensors.h"
#include "suite/run/passes/session.h"
#include "tests/gpu.h"
#include "tests/suite/train/recorded_modes.h"
#include "tests/suite/train/tiny.h"

// Tests what only a GPU has: loss scaling, tf32, page-locked batches.
namespace noisemark::suite {
namespace {

using test::tiny_definition;
using test::TinySession;

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

/// One step while a weight is not a number.
void expect_skipped(Trainer& trainer) {
  const LossScaler& scaler = trainer.scaler().value();
  const std::string before = tensors_sha256(trainer.weights());
  const double scale = scaler.current_scale();
  const int64_t skipped = scaler.skipped_steps();
  const at::Tensor weight = trainer.parameters().front().second.detach();
  const at::Tensor kept = weight.clone();
  weight.fill_(std::numeric_limits<float>::quiet_NaN());
  EXPECT_FALSE(std::isfinite(trainer.step().loss));
  weight.copy_(kept);
  EXPECT_EQ(scaler.current_scale(), scale / 2);
  EXPECT_EQ(scaler.skipped_steps(), skipped + 1);
  EXPECT_EQ(tensors_sha256(trainer.weights()), before);
}

TEST(GpuTraining, a_loss_that_is_not_finite_skips_the_step) {
  const TinySession session(tiny_definition(), "fp16", kGpu);
  expect_skipped(*session.trainer);
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
  RunSpec spec;
  spec.threads = 1;
  spec.device = kGpu;
  spec.precision = parse_precision(precision, kGpu);
  configure_process(spec);
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

/// The loader ends where the definition's steps do.
Definition definition_of(int64_t steps) {
  Definition definition = tiny_definition();
  definition.train.steps = steps;
  return definition;
}

TEST(GpuModes, ask_the_driver_for_no_memory_once_they_are_steady) {
  constexpr int64_t kUntilSteady = 8;
  constexpr int64_t kWatched = 5;
  for (const char* mode : {"none", "echo", "gist", "dpr8", "q4", "offload", "offload:all"}) {
    SCOPED_TRACE(mode);
    const TinySession session(definition_of(kUntilSteady + kWatched),
                              TinySession::options_of(parse_precision("fp32", kGpu), kGpu), mode);
    for (int64_t step = 0; step < kUntilSteady; ++step) (void)session.trainer->step();
    const int64_t before = at::accelerator::getDeviceStats(kGpu.index()).num_device_alloc;
    for (int64_t step = 0; step < kWatched; ++step) (void)session.trainer->step();
    EXPECT_EQ(at::accelerator::getDeviceStats(kGpu.index()).num_device_alloc, before);
  }
}

struct GraphCase {
  std::string mode;
  std::string precision;
  bool channels_last = false;
};

/// Some for every mode to become steady, and the rest repeated.
constexpr int64_t kGraphSteps = 14;

TinySession graph_session(const GraphCase& c, bool repeated) {
  TrainerOptions options = TinySession::options_of(parse_precision(c.precision, kGpu), kGpu);
  options.channels_last = c.channels_last;
  if (repeated) options.make_graph = baselines::make_device_graph;
  Definition definition = definition_of(kGraphSteps);
  definition.optimizer.warmup_steps = 9;
  return {definition, options, c.mode};
}

/// Losses to rounding: the sums of a GPU may be taken in another order on another stream. Dropout
/// is on, so that masks of other steps would show.
void expect_repeats(const GraphCase& c) {
  SCOPED_TRACE(c.mode + " " + c.precision + (c.channels_last ? " channels last" : ""));
  const TinySession repeated = graph_session(c, true);
  const TinySession issued = graph_session(c, false);
  for (int64_t step = 0; step < kGraphSteps; ++step) {
    const double expected = issued.trainer->step().loss;
    const double loss = repeated.trainer->step().loss;
    // Steps amplify a difference of rounding; another mask or batch moves a loss by percents.
    EXPECT_NEAR(loss, expected, (c.precision == "fp32" ? 1e-4 : 5e-3) * expected) << step;
  }
  EXPECT_GT(repeated.trainer->repeated_steps(), 0);
}

TEST(GpuGraph, repeats_the_steps_that_the_host_would_issue_under_every_mode_that_allows_it) {
  for (const std::string& mode : test::recorded_modes()) {
    expect_repeats({mode, "fp32"});
    expect_repeats({mode, "fp32", true});
  }
  for (const std::string& mode : test::composed_recorded_modes()) {
    expect_repeats({mode, "fp32"});
    expect_repeats({mode, "fp32", true});
  }
}

/// If a plan holds narrow what is not known to be a cast, the recording is refused, and says
/// which mode it was and why.
bool repeats_or_says_why_not(const GraphCase& c) {
  try {
    expect_repeats(c);
    return true;
  } catch (const Error& error) {
    const std::string words = error.what();
    EXPECT_EQ(error.code(), ExitCode::kBadInput) << words;
    EXPECT_NE(words.find("under mode " + c.mode), std::string::npos) << words;
    EXPECT_NE(words.find("whether an encoding holds all of its tensor"), std::string::npos)
        << words;
    return false;
  }
}

TEST(GpuGraph, under_autocast_repeats_the_steps_of_every_mode_or_says_why_not) {
  int repeated = 0;
  for (const char* precision : {"bf16", "fp16"}) {
    for (const bool channels_last : {false, true}) {
      for (const std::string& mode : test::recorded_modes()) {
        repeated += repeats_or_says_why_not({mode, precision, channels_last}) ? 1 : 0;
      }
    }
  }
  EXPECT_GE(repeated, 4 * 4) << "none, and modes that only round, hold nothing narrow";
}

TEST(GpuGraph, repeats_the_steps_of_every_precision) {
  for (const char* precision : {"tf32", "bf16", "fp16"}) {
    expect_repeats({"none", precision});
    expect_repeats({"none", precision, true});
  }
}

TEST(GpuGraph, allocates_nothing_while_it_repeats) {
  const TinySession session = graph_session({"echo", "fp32"}, true);
  while (session.trainer->repeated_steps() < 2) (void)session.trainer->step();
  memopt::AllocationSource* source = memopt::find_allocation_source(kGpu);
  ASSERT_NE(source, nullptr);
  const int64_t before = source->live_bytes();
  (void)source->take_high_bytes();
  (void)session.trainer->step();
  EXPECT_EQ(source->live_bytes(), before);
  // The batch on its way to where the recorded step reads it, and little more.
  EXPECT_LT(source->take_high_bytes() - before, 1 << 20);
}

TEST(GpuGraph, an_overflow_is_skipped_by_the_device_alone) {
  const TinySession session = graph_session({"none", "fp16"}, true);
  while (session.trainer->repeated_steps() < 1) (void)session.trainer->step();
  const LossScaler& scaler = session.trainer->scaler().value();
  constexpr double kTooLarge = 0x1p100;
  state_of(scaler)["scaler.scale"].fill_(kTooLarge);
  const int64_t skipped = scaler.skipped_steps();
  const std::string before = tensors_sha256(session.trainer->weights());
  (void)session.trainer->step();
  EXPECT_EQ(scaler.current_scale(), kTooLarge / 2);
  EXPECT_EQ(scaler.skipped_steps(), skipped + 1);
  EXPECT_EQ(tensors_sha256(session.trainer->weights()), before);
}

TEST(GpuGraph, a_loss_that_is_not_finite_skips_the_step) {
  const TinySession session = graph_session({"none", "fp16"}, true);
  while (session.trainer->repeated_steps() < 1) (void)session.trainer->step();
  expect_skipped(*session.trainer);
}

TEST(GpuGraph, that_was_given_up_stands_in_the_way_of_no_other) {
  const at::Tensor x = at::randn({1024}, at::device(kGpu));
  // The host may not wait for what is only recorded.
  const auto asks_the_device = [&x] { (void)(x + 1).sum().item<float>(); };
  EXPECT_THROW(baselines::make_device_graph(kGpu)->capture(asks_the_device), c10::Error);
  EXPECT_NO_THROW((void)at::randn({8}, at::device(kGpu))) << "the generator still records";
  EXPECT_NO_THROW((void)at::empty({8}, at::TensorOptions().pinned_memory(true)));
  const at::Tensor doubled = at::empty_like(x);
  const auto graph = baselines::make_device_graph(kGpu);
  graph->capture([&] { doubled.copy_(x * 2); });
  graph->replay();
  EXPECT_TRUE(at::equal(doubled, x + x));
}

TEST(GpuGraph, of_a_plan_that_needs_the_host_is_refused) {
  const TinySession session = graph_session({"q4", "fp32"}, true);
  try {
    for (int64_t step = 0; step < kGraphSteps; ++step) (void)session.trainer->step();
    FAIL() << "a step that rounds by its number was repeated";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
  }
}

}  // namespace
}  // namespace noisemark::suite
