/// Modes that offload to host memory which is too small for what they would send there.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/memopt/trained_net.h"

namespace noisemark::memopt {
namespace {

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
  // Of what was refused, masks may be held in 1 bit on the device instead.
  EXPECT_GE(report.host->refused_tensors, held.storages);
  EXPECT_GE(report.host->refused_bytes, held.bytes);
}

TEST_P(FullHost, has_the_same_room_in_every_step) {
  TrainedNet mode(GetParam());
  const int64_t held = mode.steady_step().held_bytes;
  const HostMemoryReport before = host_of(mode.planned());
  const int64_t live = cpu_allocator_totals().live_bytes;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(mode.step().held_bytes, held) << i;
  EXPECT_EQ(cpu_allocator_totals().live_bytes, live) << "nothing is left behind";
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
