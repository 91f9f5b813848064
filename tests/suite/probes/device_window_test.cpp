#include "suite/probes/device_window.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "tests/suite/probes/fake_counters.h"
#include "tests/suite/probes/fake_sampled.h"

namespace noisemark::suite {
namespace {

TEST(BusyTime, of_nothing_is_nothing) {
  EXPECT_EQ(merged_ns({}), 0);
  const BusyTime none = busy_time({}, 3);
  EXPECT_EQ(none.kernel_s, 0);
  EXPECT_EQ(none.busy_s, 0);
  EXPECT_EQ(none.kernels, 0);
}

TEST(BusyTime, counts_overlaps_once_whatever_the_order) {
  EXPECT_EQ(merged_ns({{0, 10}, {20, 30}}), 20) << "apart";
  EXPECT_EQ(merged_ns({{0, 10}, {10, 30}}), 30) << "touching";
  EXPECT_EQ(merged_ns({{20, 30}, {5, 25}, {0, 10}}), 30) << "a chain, backwards";
  EXPECT_EQ(merged_ns({{0, 100}, {10, 20}, {30, 40}}), 100) << "one within another";
  EXPECT_EQ(merged_ns({{5, 15}, {5, 10}, {5, 15}}), 10) << "the same begin";
}

TEST(BusyTime, takes_no_time_for_a_span_that_ends_before_it_begins) {
  EXPECT_EQ(merged_ns({{10, 5}, {7, 7}}), 0);
  EXPECT_EQ(merged_ns({{0, 10}, {20, 15}, {30, 40}}), 20);
}

TEST(BusyTime, works_before_the_epoch_of_its_clock) {
  EXPECT_EQ(merged_ns({{-30, -10}, {-20, 5}}), 35);
}

TEST(BusyTime, is_per_step_and_tells_kernels_from_copies) {
  DeviceActivity activity;
  activity.kernels = {{0, 1'000'000'000}, {500'000'000, 2'000'000'000}};
  activity.copies = {{1'500'000'000, 4'000'000'000}};
  const BusyTime busy = busy_time(activity, 2);
  // Whole half seconds are exact in binary.
  EXPECT_DOUBLE_EQ(busy.kernel_s, 1);
  EXPECT_DOUBLE_EQ(busy.busy_s, 2);
  EXPECT_DOUBLE_EQ(busy.kernels, 1);
}

TEST(BusyTime, of_copies_alone_has_no_kernel) {
  DeviceActivity activity;
  activity.copies = {{0, 1'000'000'000}};
  const BusyTime busy = busy_time(activity, 1);
  EXPECT_EQ(busy.kernel_s, 0);
  EXPECT_DOUBLE_EQ(busy.busy_s, 1);
}

using test::FakeCounters;

/// Ten seconds in which twenty steps of 0.4 s of kernels, and 0.45 s with copies, were made.
DeviceWindow ten_seconds() {
  DeviceWindow window;
  window.window_s = 10;
  for (size_t i = 0; i < gpm_metrics().size(); ++i) window.shares.push_back({0.4, ""});
  SampledShare sampled;  // shares of four seconds
  sampled.value.frac = 0.3;
  sampled.value.lowest = 0.1;
  sampled.value.highest = 0.9;
  sampled.value.samples = 1000;
  sampled.value.interval_s = 4e-3;
  sampled.value.called = "a__counter";
  sampled.window_s = 4;
  window.sampled.assign(sampled_metrics().size(), sampled);
  window.energy_j = 6000;
  reports::DeviceReading reading;
  for (const double power_w : {500.0, 700.0, 600.0}) {
    reading.power_w = power_w;
    reading.clock_reasons = power_w > 650 ? 0x4 : 0;
    window.readings.push_back(reading);
    reading.at_s += 4;
  }
  return window;
}

WindowWork twenty_steps() {
  WindowWork work;
  work.steps = 20;
  work.images = 2560;
  work.busy = BusyTime{0.4, 0.45, 300};
  work.flop = 2e15;
  work.peak_flop_per_s = 800e12;
  return work;
}

const reports::DeviceColumn& column(const reports::DeviceUse& use, const std::string& name) {
  for (const auto& one : use.columns) {
    if (one.name == name) return one;
  }
  throw std::out_of_range(name);
}

TEST(DeviceUse, gives_shares_over_wall_time_and_while_kernels_ran) {
  const auto use = device_use(ten_seconds(), twenty_steps());
  EXPECT_DOUBLE_EQ(column(use, "kernel_busy").value.value(), 0.8);
  EXPECT_DOUBLE_EQ(column(use, "device_busy").value.value(), 0.9);
  EXPECT_DOUBLE_EQ(column(use, "sm_active").value.value(), 0.4);
  EXPECT_DOUBLE_EQ(column(use, "sm_active").over_kernels.value(), 0.5);
  EXPECT_DOUBLE_EQ(column(use, "flop_of_peak").value.value(), 0.25);
  EXPECT_DOUBLE_EQ(column(use, "flop_of_peak").over_kernels.value(), 0.3125);
  EXPECT_FALSE(column(use, "dram_active").over_kernels) << "copies use the memory too";
  EXPECT_FALSE(column(use, "kernel_busy").over_kernels);
}

/// Compares FP32, FP16 and tensor cores from both sources: sampling may hold the clocks.
TEST(DeviceUse, gives_pipes_over_wall_time_and_what_was_not_sampled_over_the_kernels_time) {
  const auto use = device_use(ten_seconds(), twenty_steps());
  for (const char* pipe : {"fp32_active", "fp16_active", "tensor_active"}) {
    EXPECT_DOUBLE_EQ(column(use, pipe).value.value(), 0.4) << pipe;
    EXPECT_DOUBLE_EQ(column(use, pipe).over_kernels.value(), 0.4 / 0.8) << pipe;
    EXPECT_TRUE(column(use, pipe).source.starts_with("NVML GPM ")) << pipe;
    const auto& sampled = column(use, std::string(pipe) + "_sampled");
    EXPECT_DOUBLE_EQ(sampled.value.value(), 0.3) << pipe;
    EXPECT_FALSE(sampled.over_kernels) << pipe;
    EXPECT_EQ(sampled.window_s, 4) << pipe;
    EXPECT_EQ(sampled.source, "CUPTI PM sampling of a__counter, every 4 ms") << pipe;
  }
  EXPECT_EQ(column(use, "sm_active_sampled").readings, 1000);
  EXPECT_DOUBLE_EQ(column(use, "sm_active_sampled").lowest.value(), 0.1);
  EXPECT_DOUBLE_EQ(column(use, "sm_active_sampled").highest.value(), 0.9);
}

TEST(DeviceUse, keeps_nvmls_columns_where_counters_cannot_be_sampled) {
  DeviceWindow window = ten_seconds();
  SampledShare none;
  none.value.missing_reason = "cuptiPmSamplingEnable: no permission";
  window.sampled.assign(sampled_metrics().size(), none);
  const auto use = device_use(window, twenty_steps());
  EXPECT_EQ(column(use, "sm_active_sampled").missing_reason, none.value.missing_reason);
  EXPECT_EQ(column(use, "sm_active_sampled").source, "CUPTI PM sampling");
  EXPECT_DOUBLE_EQ(column(use, "sm_active").value.value(), 0.4);
  window.sampled.clear();
  EXPECT_EQ(column(device_use(window, twenty_steps()), "fp32_active_sampled").missing_reason,
            "it was not read");
}

TEST(DeviceUse, says_what_is_of_a_part_of_a_divided_gpu_and_what_of_the_whole) {
  DeviceWindow window = ten_seconds();
  window.instance = 3;
  window.other_processes = 1;
  const auto use = device_use(window, twenty_steps());
  EXPECT_EQ(column(use, "sm_active").source,
            "NVML GPM SM_UTIL, of GPU instance 3, of 1 other process too");
  for (const char* name : {"power", "sm_clock", "temperature"}) {
    EXPECT_TRUE(column(use, name).source.ends_with(", of the whole GPU with all its instances"))
        << column(use, name).source;
  }
  EXPECT_TRUE(column(use, "energy_per_image").source.ends_with("with all its instances"));
}

TEST(DeviceUse, gives_the_spread_of_readings_and_energy_by_image) {
  const auto use = device_use(ten_seconds(), twenty_steps());
  EXPECT_DOUBLE_EQ(column(use, "power").value.value(), 600);
  EXPECT_DOUBLE_EQ(column(use, "power").lowest.value(), 500);
  EXPECT_DOUBLE_EQ(column(use, "power").highest.value(), 700);
  EXPECT_EQ(column(use, "power").readings, 3);
  EXPECT_NE(column(use, "power").source.find("a mean over 1 s"), std::string::npos);
  EXPECT_DOUBLE_EQ(column(use, "energy_per_image").value.value(), 6000.0 / 2560);
  EXPECT_EQ(use.clock_reasons, "power cap (1 of 3 readings)");
}

TEST(DeviceUse, keeps_every_reading_with_its_moment) {
  const auto use = device_use(ten_seconds(), twenty_steps());
  ASSERT_EQ(use.trace.size(), 3U);
  EXPECT_DOUBLE_EQ(use.trace[1].at_s, 4);
  EXPECT_DOUBLE_EQ(use.trace[1].power_w.value(), 700);
  EXPECT_EQ(use.trace[1].clock_reasons, 0x4);
  EXPECT_FALSE(use.trace[1].sm_clock_mhz);
}

TEST(DeviceUse, says_the_window_and_the_source_of_every_column_and_why_one_is_missing) {
  DeviceWindow window = ten_seconds();
  window.shares[1] = {std::nullopt, "no permission"};
  window.energy_j.reset();
  const auto use = device_use(window, twenty_steps());
  for (const auto& one : use.columns) {
    EXPECT_NE(one.source, "") << one.name;
    EXPECT_EQ(one.window_s, one.name.ends_with("_sampled") ? 4 : 10) << one.name;
    EXPECT_EQ(one.value.has_value(), one.missing_reason.empty()) << one.name;
  }
  EXPECT_EQ(column(use, "sm_active").missing_reason, "no permission");
  EXPECT_FALSE(column(use, "sm_active").over_kernels);
  EXPECT_EQ(column(use, "temperature").missing_reason, "the driver does not say it for this GPU");
  EXPECT_NE(column(use, "energy_per_image").missing_reason, "");
}

TEST(DeviceUse, says_of_shares_of_the_whole_gpu_that_others_used_it_too) {
  DeviceWindow window = ten_seconds();
  EXPECT_EQ(column(device_use(window, twenty_steps()), "sm_active").source, "NVML GPM SM_UTIL");
  window.other_processes = 2;
  EXPECT_EQ(column(device_use(window, twenty_steps()), "sm_active").source,
            "NVML GPM SM_UTIL, of 2 other processes too");
}

TEST(DeviceUse, has_no_kernel_time_without_a_profile_of_the_device) {
  WindowWork work = twenty_steps();
  work.busy.reset();
  work.busy_missing = "the profiler saw no kernel";
  const auto use = device_use(ten_seconds(), work);
  EXPECT_EQ(column(use, "kernel_busy").missing_reason, "the profiler saw no kernel");
  EXPECT_EQ(column(use, "device_busy").missing_reason, "the profiler saw no kernel");
  EXPECT_DOUBLE_EQ(column(use, "sm_active").value.value(), 0.4);
  EXPECT_FALSE(column(use, "sm_active").over_kernels);
}

TEST(DeviceUse, refuses_kernels_that_took_longer_than_the_window) {
  WindowWork work = twenty_steps();
  work.busy->kernel_s = 0.505;
  EXPECT_DOUBLE_EQ(column(device_use(ten_seconds(), work), "kernel_busy").value.value(), 1)
      << "noise of a hundredth is cut";
  work.busy->kernel_s = 0.6;
  const auto use = device_use(ten_seconds(), work);
  EXPECT_FALSE(column(use, "kernel_busy").value);
  EXPECT_NE(column(use, "kernel_busy").missing_reason, "");
  EXPECT_FALSE(column(use, "sm_active").over_kernels);
}

TEST(DeviceUse, gives_no_share_of_more_than_all_while_kernels_ran) {
  DeviceWindow window = ten_seconds();
  const auto over_kernels = [&](double frac) {
    window.shares[1].frac = frac;
    return column(device_use(window, twenty_steps()), "sm_active").over_kernels;
  };
  EXPECT_EQ(over_kernels(0.81), 1.0) << "noise of a hundredth is cut";
  EXPECT_FALSE(over_kernels(0.9)) << "counters and profile do not agree";
}

TEST(DeviceUse, of_an_empty_window_divides_by_nothing) {
  const auto use = device_use({}, {});
  for (const auto& one : use.columns) {
    EXPECT_FALSE(one.value) << one.name;
    if (one.name == "kernel_busy" || one.name == "device_busy")
      continue;  // its reason is the work's
    EXPECT_NE(one.missing_reason, "") << one.name;
  }
}

TEST(SampleWindows, runs_the_work_once_in_each_window_and_says_what_is_in_none) {
  test::FakeSampled counters(2);
  int runs = 0;
  const auto shares = sample_windows(counters, 0.5, [&] { ++runs; });
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(counters.begun, 2);
  EXPECT_EQ(counters.expected_s(), 0.5);
  ASSERT_EQ(shares.size(), sampled_metrics().size());
  EXPECT_GT(shares[0].window_s, 0);
  EXPECT_GT(shares[1].window_s, 0) << "every second one is in the second window";
  EXPECT_DOUBLE_EQ(shares[4].value.frac.value(), 0.5);
  EXPECT_FALSE(shares[5].value.frac);
  EXPECT_EQ(shares[5].value.missing_reason, "this chip has no counter for it");
  EXPECT_EQ(shares[5].window_s, 0);
}

TEST(SampleWindows, runs_nothing_where_nothing_can_be_sampled) {
  test::FakeSampled counters(0);
  const auto shares = sample_windows(counters, 0.5, [] { throw std::logic_error("ran"); });
  for (const SampledShare& share : shares) EXPECT_EQ(share.value.missing_reason, "no permission");
}

TEST(ClockReasons, are_counted_by_readings_the_most_frequent_first) {
  reports::DeviceReading capped, hot, calm, silent;
  capped.clock_reasons = 0x4;
  hot.clock_reasons = 0x4 | 0x20;
  calm.clock_reasons = 0;
  EXPECT_EQ(clock_reasons_of({calm, calm}), "nothing");
  EXPECT_EQ(clock_reasons_of({silent}), "");
  EXPECT_EQ(clock_reasons_of({hot, capped, calm, silent}),
            "power cap (2 of 3 readings), thermal slow-down (1 of 3 readings)");
}

TEST(DeviceWatch, reads_at_once_and_then_in_its_interval_until_it_is_told) {
  FakeCounters counters;
  counters.reading.power_w = 100;
  counters.energy = 5000;
  counters.spent_mj = 250;
  DeviceWatch watch(counters, 0.001);
  while (counters.reads < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const DeviceWindow window = watch.stop();
  EXPECT_EQ(counters.windows, 1);
  EXPECT_GE(window.readings.size(), 3U);
  EXPECT_EQ(window.readings.size(), static_cast<size_t>(counters.reads));
  EXPECT_GT(window.window_s, 0);
  for (size_t i = 1; i < window.readings.size(); ++i) {
    EXPECT_GT(window.readings[i].at_s, window.readings[i - 1].at_s);
  }
  EXPECT_DOUBLE_EQ(window.energy_j.value(), 0.25);
  EXPECT_EQ(window.shares.size(), gpm_metrics().size());
}

TEST(DeviceWatch, has_a_reading_of_the_shortest_window_and_no_energy_of_a_gpu_without_a_counter) {
  FakeCounters counters;
  DeviceWatch watch(counters, 1000);
  while (counters.reads < 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const DeviceWindow window = watch.stop();  // does not wait for the interval
  EXPECT_EQ(window.readings.size(), 1U);
  EXPECT_FALSE(window.energy_j);
}

TEST(DeviceWatch, may_be_left_without_being_stopped) {
  FakeCounters counters;
  { const DeviceWatch watch(counters, 1000); }
  EXPECT_EQ(counters.windows, 1);
}

}  // namespace

}  // namespace noisemark::suite
