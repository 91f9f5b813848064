#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "baselines/device_parts.h"
#include "memopt/modes/mode.h"
#include "reports/base/error.h"
#include "suite/io/safetensors.h"
#include "tests/suite/train/doubtful_mode.h"
#include "tests/suite/train/recorded_modes.h"
#include "tests/suite/train/tiny.h"

// Steps that a device repeats, with a host in the place of the device: a repetition is the recorded
// work done again, so on the CPU the bits must be those of steps that the host issues.
namespace noisemark::suite {
namespace {

using test::TinySession;

constexpr int64_t kSteps = 12;
constexpr int64_t kResumedSteps = 14;
/// The warm-ups on the stream that is recorded, before the recording.
constexpr int64_t kWarmUps = 3;
constexpr int64_t kRecordingBytes = 4711;

Definition resumed_definition() {
  Definition definition = test::tiny_definition();
  definition.train.steps = kResumedSteps;
  return definition;
}

struct Calls {
  int warm_ups = 0;
  int captures = 0;
  int replays = 0;
};

class HostGraph final : public baselines::DeviceGraph {
 public:
  HostGraph(Calls& calls, bool runs_at_capture) : calls_(calls), runs_(runs_at_capture) {}
  void warm_up(const std::function<void()>& work) override {
    ++calls_.warm_ups;
    work();
  }
  /// A GPU's recording makes the host go through the work as well.
  void capture(const std::function<void()>& work) override {
    ++calls_.captures;
    work_ = work;
    if (runs_) work_();
  }
  void replay() override {
    ++calls_.replays;
    work_();
  }
  int64_t own_bytes() override { return kRecordingBytes; }

 private:
  Calls& calls_;
  bool runs_;
  std::function<void()> work_;
};

TrainerOptions options_of(bool loss_scaling = false) {
  Precision precision = parse_precision("fp32", at::kCPU);
  precision.loss_scaling = loss_scaling;
  return TinySession::options_of(precision, at::kCPU);
}

TrainerOptions repeating(TrainerOptions options, Calls& calls, bool runs_at_capture = false) {
  options.make_graph = [&calls, runs_at_capture](at::Device) {
    return std::make_unique<HostGraph>(calls, runs_at_capture);
  };
  return options;
}

struct Trace {
  std::vector<double> losses, norms;
  std::string weights, optimizer, average;

  bool operator==(const Trace&) const = default;
};

Trace trained(const TinySession& session, int64_t steps = kSteps) {
  Trace trace;
  while (session.trainer->next_step() < steps) {
    const StepRecord record = session.trainer->step();
    trace.losses.push_back(record.loss);
    if (record.grad_norm) trace.norms.push_back(*record.grad_norm);
  }
  trace.weights = tensors_sha256(session.trainer->weights());
  trace.optimizer = tensors_sha256(session.trainer->optimizer_state());
  trace.average = tensors_sha256(session.trainer->averaged_weights());
  return trace;
}

/// Trains `mode` beside the same steps issued by the host; returns what the graph was asked for.
Calls expect_same_bits(const Definition& definition, const std::string& mode,
                       const TrainerOptions& options) {
  Calls calls;
  const TinySession repeated(definition, repeating(options, calls), mode);
  const TinySession issued(definition, options, mode);
  const Trace ours = trained(repeated);
  const Trace expected = trained(issued);
  EXPECT_EQ(ours.losses, expected.losses);
  EXPECT_EQ(ours.norms, expected.norms);
  EXPECT_TRUE(ours == expected) << "weights, optimizer or average differ";
  EXPECT_EQ(calls.warm_ups, kWarmUps);
  EXPECT_EQ(calls.captures, 1);
  EXPECT_EQ(calls.replays, repeated.trainer->repeated_steps());
  EXPECT_GT(calls.replays, 0);
  EXPECT_EQ(issued.trainer->repeated_steps(), 0);
  return calls;
}

TEST(RepeatedStep, has_the_bits_of_a_step_that_the_host_issues) {
  const Calls calls = expect_same_bits(resumed_definition(), "none", options_of());
  // One by the host, so that everything that is made lazily is there.
  EXPECT_EQ(calls.replays, kSteps - 1 - kWarmUps);
}

TEST(RepeatedStep, says_what_memory_is_the_recordings_own_once_there_is_one) {
  Calls calls;
  const TinySession session(resumed_definition(), repeating(options_of(), calls));
  while (calls.captures == 0) {
    EXPECT_FALSE(session.trainer->recording_bytes());
    (void)session.trainer->step();
  }
  EXPECT_EQ(session.trainer->recording_bytes(), kRecordingBytes);
  const TinySession issued(resumed_definition(), options_of());
  (void)issued.trainer->step();
  EXPECT_FALSE(issued.trainer->recording_bytes());
}

TEST(RepeatedStep, keeps_to_every_rule_of_the_optimizer_and_the_average) {
  for (const EmaConfig& average : test::tiny_averages()) {
    for (const double clip_norm : {0.0, 0.05, 1e9}) {
      for (const int64_t warmup_steps : {0, 7}) {
        SCOPED_TRACE(average.kind + ", clip " + std::to_string(clip_norm) + ", warm-up " +
                     std::to_string(warmup_steps));
        Definition definition = resumed_definition();
        definition.ema = average;
        definition.optimizer.clip_norm = clip_norm;
        definition.optimizer.warmup_steps = warmup_steps;
        (void)expect_same_bits(definition, "none", options_of());
      }
    }
  }
}

TEST(RepeatedStep, holds_all_micro_batches) {
  Definition definition = resumed_definition();
  definition.train.accumulation = 2;
  (void)expect_same_bits(definition, "none", options_of());
  definition.ema.kind = "none";
  (void)expect_same_bits(definition, "none", options_of());
}

TEST(RepeatedStep, of_a_scaled_loss_skips_where_the_host_would) {
  (void)expect_same_bits(resumed_definition(), "none", options_of(/*loss_scaling=*/true));
  TrainerOptions overflowing = options_of(/*loss_scaling=*/true);
  overflowing.fault.loss_factor = 0x1p120;  // times any scale here no float32
  Calls calls;
  const TinySession session(resumed_definition(), repeating(overflowing, calls));
  const std::string before = tensors_sha256(session.trainer->weights());
  (void)trained(session, 6);
  EXPECT_EQ(session.trainer->scaler()->skipped_steps(), 6);
  EXPECT_EQ(session.trainer->scaler()->current_scale(), 0x1p10);
  EXPECT_EQ(tensors_sha256(session.trainer->weights()), before);
  EXPECT_EQ(calls.replays, 2);
}

TEST(RepeatedStep, of_a_loss_that_is_not_finite_is_skipped_until_the_scale_is_at_its_least) {
  TrainerOptions infinite = options_of(/*loss_scaling=*/true);
  infinite.fault.loss_factor = std::numeric_limits<double>::infinity();
  Definition definition = resumed_definition();
  definition.train.steps = 20;
  Calls calls;
  const TinySession session(definition, repeating(infinite, calls));
  const std::string before = tensors_sha256(session.trainer->weights());
  try {
    (void)trained(session, 20);
    FAIL() << "a loss that no scale makes finite went on";
  } catch (const NonFinite& error) {
    EXPECT_EQ(error.step(), 16) << "as many halvings of the first scale, 2^16, lead to 1";
    EXPECT_EQ(error.tensor(), "output of aten::mul in forward");
  }
  EXPECT_EQ(session.trainer->scaler()->skipped_steps(), 17);
  EXPECT_EQ(tensors_sha256(session.trainer->weights()), before);
  EXPECT_GT(calls.replays, 0);
}

struct RecordedMode {
  std::string mode;
  bool channels_last = false;
};

class EveryRecordedMode : public testing::TestWithParam<RecordedMode> {};

TEST_P(EveryRecordedMode, is_recorded_when_it_has_its_plan_and_follows_it) {
  const auto& [mode, channels_last] = GetParam();
  ASSERT_EQ(memopt::why_host_is_needed(mode), "");
  TrainerOptions options = options_of();
  options.channels_last = channels_last;
  const Calls calls = expect_same_bits(resumed_definition(), mode, options);
  EXPECT_LE(calls.replays, kSteps - memopt::make_mode(mode)->forwards_until_steady() - kWarmUps);
}

std::vector<RecordedMode> every_recorded_mode(bool channels_last) {
  std::vector<RecordedMode> all;
  for (const std::string& mode : test::recorded_modes()) all.push_back({mode, channels_last});
  for (const std::string& mode : test::composed_recorded_modes())
    all.push_back({mode, channels_last});
  return all;
}

std::string name_of(const testing::TestParamInfo<RecordedMode>& tested) {
  std::string name = tested.param.mode;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(RepeatedStep, EveryRecordedMode,
                         testing::ValuesIn(every_recorded_mode(/*channels_last=*/false)), name_of);
INSTANTIATE_TEST_SUITE_P(RepeatedStepInChannelsLast, EveryRecordedMode,
                         testing::ValuesIn(every_recorded_mode(/*channels_last=*/true)), name_of);

std::string complaint_under(const std::string& mode) {
  Calls calls;
  const TinySession session(resumed_definition(), repeating(options_of(), calls, true), mode);
  try {
    (void)trained(session);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_EQ(calls.replays, 0);
    return error.what();
  }
  return "accepted";
}

TEST(RepeatedStep, refuses_a_mode_whose_steps_need_the_host_and_says_why) {
  for (const char* mode : {"q4", "q2", "offload:all"}) {
    const std::string why = memopt::why_host_is_needed(mode);
    ASSERT_NE(why, "") << mode;
    const std::string message = complaint_under(mode);
    EXPECT_NE(message.find("cuda-graph"), std::string::npos) << message;
    EXPECT_NE(message.find(std::string("mode ") + mode), std::string::npos) << message;
    EXPECT_NE(message.find(why), std::string::npos) << message;
  }
}

TEST(RepeatedStep, that_is_not_finite_is_an_error_and_leaves_the_weights_alone) {
  Calls calls;
  const TinySession session(resumed_definition(), repeating(options_of(), calls));
  (void)trained(session, 6);
  ASSERT_GT(calls.replays, 0);
  const NamedTensors parameters = session.trainer->parameters();
  const std::string poisoned = parameters.front().first;
  parameters.front().second.detach().view({-1})[0] = std::numeric_limits<float>::quiet_NaN();
  const std::string before = tensors_sha256(session.trainer->optimizer_state());
  try {
    (void)session.trainer->step();
    FAIL() << "a NaN went unnoticed";
  } catch (const NonFinite& error) {
    EXPECT_EQ(error.step(), 6);
    EXPECT_EQ(error.tensor(), "weight " + poisoned);
  }
  EXPECT_EQ(tensors_sha256(session.trainer->optimizer_state()), before);
}

TEST(RepeatedStep, ends_where_the_mode_finds_its_gradient_wrong) {
  constexpr int64_t kWrong = 8;
  Calls calls;
  const TinySession session(resumed_definition(), repeating(options_of(), calls),
                            std::make_unique<test::DoubtfulMode>(kWrong));
  (void)trained(session, kWrong);
  ASSERT_GT(calls.replays, 0);
  EXPECT_THROW((void)session.trainer->step(), c10::Error);
}

TEST(RepeatedStep, goes_on_with_the_same_bits_where_a_run_is_resumed) {
  Calls calls;
  const TinySession whole(resumed_definition(), options_of());
  const TinySession resumed(resumed_definition(), repeating(options_of(), calls));
  (void)trained(whole, 6);
  (void)trained(resumed, 6);
  resumed.trainer->resume_at(6);  // its own state, so nothing has to be copied
  EXPECT_TRUE(trained(whole, kResumedSteps) == trained(resumed, kResumedSteps));
  EXPECT_EQ(calls.captures, 2);
}

TEST(RepeatedStep, is_not_taken_where_saved_tensors_are_looked_at) {
  Calls calls;
  const TinySession session(resumed_definition(), repeating(options_of(), calls));
  for (int64_t step = 0; step < 8; ++step) (void)session.trainer->step({}, session.mode.get());
  EXPECT_EQ(calls.warm_ups, 0);
}

}  // namespace
}  // namespace noisemark::suite
