#include <ATen/ops/full.h>
#include <ATen/ops/relu.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "tests/memopt/mode_run.h"
#include "tests/memopt/nets.h"
#include "tests/memopt/trained_net.h"

/// A value that a codec does not take goes to the next one, or is kept, and is counted.

namespace noisemark::memopt {
namespace {

using test::expect_equal;

/// Two layers with a ReLU between them, whose input is shifted: by much, and no result is zero.
class ShiftedRelu : public test::TwoLayers {
 public:
  explicit ShiftedRelu(const char* mode) : TwoLayers(mode, 41) {}

  std::vector<at::Tensor> step(double shift) {
    return step_with([&](const at::Tensor& h) {
      return at::relu(h + at::full({128, 128}, shift));
    });
  }

  /// The treatment of what ReLU gave.
  [[nodiscard]] const ValueTreatment& of_relu() {
    const TreatmentPlan& plan = *planned().plan();
    for (size_t v = 0; v < plan.values.size(); ++v) {
      const RecordedOperator* producer = plan.graph->producer_of(static_cast<ValueId>(v));
      if (producer != nullptr && producer->name == "aten::relu") return plan.values[v];
    }
    throw std::logic_error("no ReLU was recorded");
  }

  /// The share of the elements; 0 where it is not sparse.
  [[nodiscard]] double sparse_room() {
    const at::Tensor zeros = at::full({64, 64}, 0.0);
    const Codec* codec = of_relu().codec;
    if (codec == nullptr || codec->name() != "ssdc") return 0;
    return static_cast<double>(codec->encode(zeros, {})->parts.at(2).numel()) / 4096;
  }
};

TEST(CodecRefusals, in_the_verified_step_choose_the_smallest_room_that_suffices) {
  // About 16, 31, 55 and 69 % of the results are above zero.
  const std::pair<double, double> cases[] = {
      {-1.13, 0.35}, {-0.57, 0.35}, {0.15, 0.65}, {0.57, 0.8}};
  for (const auto& [shift, room] : cases) {
    ShiftedRelu gist("gist");
    for (int i = 0; i < 4; ++i) gist.step(shift);
    EXPECT_NEAR(gist.sparse_room(), room, 1e-3) << shift;
    EXPECT_EQ(gist.planned().report().counters.codec_fallbacks, 0) << "watching is no fallback";
  }
}

TEST(CodecRefusals, of_every_codec_keep_the_tensor) {
  ShiftedRelu none("none");
  ShiftedRelu gist("gist");
  for (int i = 0; i < 6; ++i) expect_equal(none.step(100), gist.step(100));
  EXPECT_EQ(gist.of_relu().source, Source::kHeld);
  EXPECT_EQ(gist.planned().report().counters.codec_fallbacks, 0);
}

TEST(CodecRefusals, while_the_plan_is_followed_are_kept_counted_and_lead_to_the_next_codec) {
  ShiftedRelu none("none");
  ShiftedRelu gist("gist");
  for (int i = 0; i < 4; ++i) expect_equal(none.step(-1), gist.step(-1));
  EXPECT_NEAR(gist.sparse_room(), 0.35, 1e-3);

  expect_equal(none.step(0), gist.step(0));
  EXPECT_EQ(gist.planned().report().counters.codec_fallbacks, 1);
  EXPECT_NEAR(gist.sparse_room(), 0.35, 1e-3) << "once is an accident";
  expect_equal(none.step(0), gist.step(0));
  EXPECT_EQ(gist.planned().report().counters.codec_fallbacks, 2);
  EXPECT_EQ(gist.of_relu().codec->name(), "narrow") << "which holds the next fewer bits";

  for (int i = 0; i < 10; ++i) expect_equal(none.step(100), gist.step(100));
  EXPECT_EQ(gist.of_relu().source, Source::kHeld) << "no codec is left";
  const int64_t refusals = gist.planned().report().counters.codec_fallbacks;
  expect_equal(none.step(100), gist.step(100));
  EXPECT_EQ(gist.planned().report().counters.codec_fallbacks, refusals);
}

TEST(CodecRefusals, of_one_that_rounds_count_although_it_is_not_compared) {
  ShiftedRelu gist("gist+dpr8");
  for (int i = 0; i < 4; ++i) gist.step(100);
  EXPECT_EQ(gist.of_relu().codec->name(), "dpr8") << "not sparse enough for any room";
  EXPECT_EQ(gist.planned().report().counters.codec_fallbacks, 0);
}

// Modes that offload to host memory which is too small for what they would send there.

using test::TrainedNet;

/// An activation of the net is 128 KiB, one behind its pooling 32.
constexpr int64_t kCapacity = 256 << 10;

/// Storages and bytes that the plan in force holds because the host was full.
HeldGroup held_for_want_of_room(const PlannedMode& mode) {
  HeldGroup all;
  for (const HeldGroup& group : held_groups(*mode.plan())) {
    if (group.reason != KeepReason::kNoRoomOnHost) continue;
    all.storages += group.storages;
    all.bytes += group.bytes;
  }
  return all;
}

HostMemoryReport host_of(const PlannedMode& mode) {
  return mode.report().host.value_or(HostMemoryReport{});
}

class FullHost : public testing::TestWithParam<const char*> {};

TEST_P(FullHost, changes_no_bit_and_says_what_found_no_room) {
  TrainedNet mode(GetParam());
  const PlannedModeReport report = test::expect_six_steps_of_none(mode);
  EXPECT_EQ(report.counters.codec_fallbacks, 0) << "the pass that verifies has found it out";
  ASSERT_TRUE(report.host.has_value());
  EXPECT_EQ(report.host->capacity_bytes, kCapacity);
  EXPECT_GT(report.plan.encoded_from_bytes, 0) << "what has room is still sent there";
  const HeldGroup held = held_for_want_of_room(mode.planned());
  EXPECT_GT(held.storages, 0);
  // Masks that were refused may be held in 1 bit on the device instead.
  EXPECT_GE(report.host->refused_tensors, held.storages);
  EXPECT_GE(report.host->refused_bytes, held.bytes);
}

TEST_P(FullHost, has_the_same_room_in_every_step) {
  TrainedNet mode(GetParam());
  const int64_t held = mode.steady_step().held_bytes;
  const HostMemoryReport before = host_of(mode.planned());
  const int64_t live = cpu_allocation_source().live_bytes();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(mode.step().held_bytes, held) << i;
  EXPECT_EQ(cpu_allocation_source().live_bytes(), live) << "nothing is left behind";
  EXPECT_EQ(host_of(mode.planned()).refused_tensors, before.refused_tensors);
  EXPECT_EQ(mode.planned().report().counters.codec_fallbacks, 0);
}

INSTANTIATE_TEST_SUITE_P(Modes, FullHost,
                         testing::Values("offload,host=256KiB", "offload:all,host=256KiB",
                                         "echo+offload:all,host=256KiB",
                                         "echo+attn+offload:all,host=256KiB"));

TEST(FullHostMemory, and_what_it_refused_are_all_that_is_to_go_there) {
  TrainedNet mode("offload:all,host=256KiB");
  mode.steady_step();
  const PlannedModeReport report = mode.planned().report();
  const HeldGroup held = held_for_want_of_room(mode.planned());
  ASSERT_TRUE(report.host.has_value());
  EXPECT_EQ(held.bytes, report.plan.held_bytes);
  EXPECT_EQ(held.storages, report.host->refused_tensors);
  EXPECT_EQ(held.bytes, report.host->refused_bytes);
  EXPECT_LE(report.plan.encoded_from_bytes, kCapacity);
  EXPECT_EQ(held.bytes + report.plan.encoded_from_bytes, report.plan.recorded_bytes);
}

TEST(FullHostMemory, of_one_byte_is_none_and_training_goes_on) {
  TrainedNet none("none");
  TrainedNet mode("offload:all,host=1");
  test::expect_same_steps(none, mode, 5);
  EXPECT_EQ(mode.planned().report().plan.encoded_from_bytes, 0);
  EXPECT_EQ(host_of(mode.planned()).capacity_bytes, 1);
}

TEST(FullHostMemory, is_found_by_what_is_rounded_when_the_plan_is_followed) {
  TrainedNet mode("dpr8+offload:all,host=64KiB");
  mode.steady_step();
  EXPECT_GT(mode.planned().report().counters.codec_fallbacks, 0);
  EXPECT_GT(host_of(mode.planned()).refused_tensors, 0);
  // Each of a tensor's three codecs may refuse twice: rounded there, whole there, rounded here.
  for (int i = 0; i < 6; ++i) mode.step();
  const int64_t fallbacks = mode.planned().report().counters.codec_fallbacks;
  mode.step();
  EXPECT_EQ(mode.planned().report().counters.codec_fallbacks, fallbacks);
  const TreatmentPlan& plan = *mode.planned().plan();
  EXPECT_TRUE(std::any_of(plan.values.begin(), plan.values.end(), [](const ValueTreatment& value) {
    return value.codec != nullptr && value.codec->name() == "dpr8";
  })) << "on the device, rounded all the same";
}

TEST(HostMemory, without_a_limit_has_room_for_all) {
  for (const char* spelling : {"offload", "offload:all", "echo+offload:all"}) {
    TrainedNet mode(spelling);
    mode.steady_step();
    const PlannedModeReport report = mode.planned().report();
    ASSERT_TRUE(report.host.has_value()) << spelling;
    EXPECT_GE(report.host->capacity_bytes, report.plan.encoded_from_bytes) << spelling;
    EXPECT_EQ(report.host->refused_tensors, 0) << spelling;
    EXPECT_EQ(report.host->refused_bytes, 0) << spelling;
    EXPECT_EQ(held_for_want_of_room(mode.planned()).storages, 0) << spelling;
  }
}

TEST(HostMemory, is_no_matter_of_a_mode_that_does_not_offload) {
  TrainedNet mode("echo");
  mode.steady_step();
  EXPECT_FALSE(mode.planned().report().host.has_value());
}

}  // namespace
}  // namespace noisemark::memopt
