#include "suite/probes/process_memory.h"
#include "tests/gpu.h"

#include <gtest/gtest.h>

#include <vector>

namespace noisemark::suite {
namespace {

AllocatorStats stats(int64_t retries) {
  AllocatorStats all;
  all.allocated_bytes[0].current = 700;
  all.allocated_bytes[0].peak = 1500;
  all.active_bytes[0].current = 800;  // 100 more wait for another stream
  all.requested_bytes[0].current = 750;
  all.reserved_bytes[0].current = 2000;
  all.reserved_bytes[0].peak = 2048;
  all.inactive_split_bytes[0].current = 30;
  all.num_alloc_retries = retries;
  all.num_ooms = 3;
  // The parts of small and large pools are in the aggregate already.
  all.allocated_bytes[1].current = 999999;
  return all;
}

TEST(DeviceMemory, is_what_the_allocator_says_and_what_follows_from_it) {
  const auto memory = device_memory_of(stats(1), stats(5), {5000, ""});
  EXPECT_EQ(memory.allocated_bytes, 700);
  EXPECT_EQ(memory.rounding_bytes, 50);
  EXPECT_EQ(memory.reserved_bytes, 2000);
  EXPECT_EQ(memory.peak_allocated_bytes, 1500);
  EXPECT_EQ(memory.peak_reserved_bytes, 2048);
  EXPECT_EQ(memory.fragmentation_bytes, 548);
  EXPECT_EQ(memory.unusable_bytes, 30);
  EXPECT_EQ(memory.retries, 4) << "of the step alone";
  EXPECT_EQ(memory.failures, 0);
  EXPECT_EQ(memory.process_bytes, 5000);
  EXPECT_EQ(outside_bytes(memory), 3000);
  EXPECT_EQ(memory.missing_reason, "");
}

TEST(DeviceMemory, knows_nothing_outside_where_the_driver_does_not_say_or_counts_less) {
  const auto silent = device_memory_of(stats(0), stats(0), {std::nullopt, "no permission"});
  EXPECT_EQ(silent.missing_reason, "process: no permission");
  EXPECT_FALSE(outside_bytes(silent));
  EXPECT_FALSE(outside_bytes(device_memory_of(stats(0), stats(0), {1999, ""})));
  EXPECT_FALSE(outside_bytes({}));
}

TEST(DeviceMemory, of_a_cpu_is_nothing_and_needs_no_reason) {
  const auto memory = DeviceMemoryWatch(c10::Device(c10::kCPU)).finish();
  EXPECT_FALSE(memory.reserved_bytes);
  EXPECT_EQ(memory.missing_reason, "");
}

TEST(TrainingMemory, has_the_peaks_of_the_pass_and_what_is_the_recordings_own) {
  const auto memory = training_memory_of(kGpu, stats(0), {12, 640});
  EXPECT_EQ(memory.peak_allocated_bytes, 1500);
  EXPECT_EQ(memory.peak_reserved_bytes, 2048);
  EXPECT_EQ(memory.recording_bytes, 640);
  EXPECT_EQ(memory.repeated_steps, 12);
  EXPECT_EQ(memory.missing_reason, "");
}

TEST(TrainingMemory, says_why_a_figure_is_missing) {
  const auto issued = training_memory_of(kGpu, stats(0), {});
  EXPECT_EQ(issued.peak_reserved_bytes, 2048);
  EXPECT_FALSE(issued.recording_bytes);
  EXPECT_EQ(issued.missing_reason, "recording: no step was recorded");
  const auto cpu = training_memory_of(c10::kCPU, DeviceMemoryWatch(c10::kCPU).stats(), {});
  EXPECT_FALSE(cpu.peak_allocated_bytes);
  EXPECT_FALSE(cpu.peak_reserved_bytes);
  EXPECT_EQ(cpu.missing_reason,
            "peaks: a CPU's allocator keeps none; recording: no step was recorded");
  EXPECT_EQ(training_memory_of(kGpu, std::nullopt, {12, 640}).missing_reason,
            "peaks: training did not begin, or the allocator counts nothing");
}

TEST(ResidentMemory, sees_a_peak_that_has_passed_and_forgets_it_when_reset) {
  const auto before = read_resident_memory();
  if (const auto* why = std::get_if<std::string>(&before)) GTEST_SKIP() << *why;
  if (const std::string why = reset_resident_peak(); !why.empty()) GTEST_SKIP() << why;
  constexpr int64_t kBytes = 64 << 20;
  const int64_t low = std::get<ResidentMemory>(read_resident_memory()).peak_bytes;
  { const std::vector<char> touched(kBytes, 1); }
  const int64_t high = std::get<ResidentMemory>(read_resident_memory()).peak_bytes;
  EXPECT_GE(high - low, kBytes * 9 / 10);  // pages already resident may serve a little of it
  EXPECT_EQ(reset_resident_peak(), "");
  EXPECT_LT(std::get<ResidentMemory>(read_resident_memory()).peak_bytes, high);
  EXPECT_GT(std::get<ResidentMemory>(before).file_bytes, 0);
}

}  // namespace

}  // namespace noisemark::suite
