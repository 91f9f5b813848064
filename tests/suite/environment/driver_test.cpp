// Tests what is asked of NVIDIA's driver, and what becomes of its answers, beside stand-ins for its
// two libraries, because the machines that run these tests mostly have none.

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "reports/base/sha256.h"
#include "suite/environment/gpu_counters.h"
#include "suite/environment/graphics.h"
#include "suite/environment/nvml.h"
#include "tests/suite/environment/driver/nvml_stand_in.h"

namespace noisemark::suite {
namespace {

using reports::Strings;

TEST(Driver, is_asked_for_what_identifies_a_gpu) {
  const Graphics gpu = describe_gpu(0);
  EXPECT_EQ(gpu.hardware, (Strings{{"gpu_clocks", "set to 1410 MHz"},
                                   {"gpu_compute_capability", "9.0"},
                                   {"gpu_ecc", "on"},
                                   {"gpu_memory_mib", "81920"},
                                   {"gpu_mig", "off"},
                                   {"gpu_model", "Stand-in GPU 40"},
                                   {"gpu_multiprocessors", "132"}}));
  EXPECT_EQ(gpu.software, (Strings{{"cuda_driver", "580.65.06"}}));
}

TEST(Driver, is_asked_for_clocks_power_and_neighbours_and_what_it_refuses_is_left_out) {
  Strings environment = describe_gpu(0).environment;
  EXPECT_EQ(environment["gpu_uuid_sha256"],
            reports::sha256_of("GPU-00000000-1111-2222-3333-444444444444"));
  const Strings expected = {{"gpu_clock_reasons", "idle"},
                            {"gpu_compute_mode", "exclusive process"},
                            {"gpu_energy_mj", "5000000000123"},
                            {"gpu_memory_clock_applications_mhz", "2619"},
                            {"gpu_memory_clock_max_mhz", "2619"},
                            {"gpu_memory_clock_mhz", "2619"},
                            {"gpu_pcie_generation", "5"},
                            {"gpu_performance_state", "0"},
                            {"gpu_persistence", "on"},
                            {"gpu_power_limit_mw", "700000"},
                            {"gpu_power_mw", "71234"},
                            {"gpu_sm_clock_applications_mhz", "1410"},
                            {"gpu_sm_clock_max_mhz", "1980"},
                            {"gpu_sm_clock_mhz", "345"},
                            {"gpu_temperature_c", "31"},
                            {"gpu_utilization_columns", "reachable"},
                            {"gpu_vbios", "96.00.74.00.01"}};
  EXPECT_TRUE(environment["gpu_other_processes"].starts_with("1")) << "this one is not another";
  environment.erase("gpu_other_processes");
  environment.erase("gpu_uuid_sha256");
  EXPECT_EQ(environment, expected);
}

TEST(Driver, says_nothing_of_a_gpu_that_it_does_not_have) {
  const Graphics none = describe_gpu(1);
  EXPECT_TRUE(none.hardware.empty());
  EXPECT_TRUE(none.environment.empty());
}

/// Finds the value of one metric of gpm_metrics() by its name.
const GpmValue& named(const std::vector<GpmValue>& values, const std::string& name) {
  const auto& metrics = gpm_metrics();
  for (size_t i = 0; i < metrics.size(); ++i) {
    if (metrics[i].name == name) return values.at(i);
  }
  throw std::out_of_range(name);
}

TEST(Gpm, gives_shares_between_two_samples_and_a_reason_for_what_it_has_not) {
  const auto counters = make_gpu_counters(0);
  counters->begin_window();
  const auto values = counters->end_window(2.5);
  ASSERT_EQ(values.size(), gpm_metrics().size());
  EXPECT_DOUBLE_EQ(named(values, "sm_active").frac.value(), 0.12);
  EXPECT_DOUBLE_EQ(named(values, "tensor_active").frac.value(), 0.15);
  EXPECT_DOUBLE_EQ(named(values, "dram_active").frac.value(), 0.20);
  EXPECT_FALSE(named(values, "fp16_active").frac);
  EXPECT_EQ(named(values, "fp16_active").missing_reason, "not supported by this GPU or driver");
  EXPECT_FALSE(named(values, "fp32_active").frac) << "250 % is no share";
  EXPECT_NE(named(values, "fp32_active").missing_reason.find("cannot be"), std::string::npos);
}

TEST(Gpm, can_be_asked_for_one_window_after_another) {
  const auto counters = make_gpu_counters(0);
  for (int i = 0; i < 3; ++i) {
    counters->begin_window();
    EXPECT_TRUE(named(counters->end_window(1), "sm_active").frac) << i;
  }
}

TEST(Gpm, gives_nothing_of_a_window_that_was_never_begun_or_is_too_short) {
  const auto counters = make_gpu_counters(0);
  for (const GpmValue& value : counters->end_window(1)) EXPECT_FALSE(value.frac);
  counters->begin_window();
  const GpmValue value = named(counters->end_window(0.05), "sm_active");
  EXPECT_FALSE(value.frac);
  EXPECT_EQ(value.missing_reason, "a window of 50 ms is too short: GPM needs 100 ms");
}

TEST(Gpm, refuses_what_no_share_can_be) {
  EXPECT_DOUBLE_EQ(gpm_value(0, 100, 1).frac.value(), 1);
  EXPECT_EQ(gpm_value(0, 100.3, 1).frac, 1.0) << "what a driver rounds up is all";
  EXPECT_FALSE(gpm_value(0, 101, 1).frac);
  EXPECT_FALSE(gpm_value(0, std::nan(""), 1).frac);
  EXPECT_FALSE(gpm_value(0, -1, 1).frac);
  EXPECT_EQ(gpm_value(4, 50, 1).missing_reason, "no permission");
  EXPECT_EQ(gpm_value(777, 50, 1).missing_reason, "NVML error 777");
}

TEST(Gpm, says_why_there_is_none_of_a_gpu_that_is_not_here) {
  const auto counters = make_gpu_counters(1);
  counters->begin_window();
  const auto values = counters->end_window(1);
  ASSERT_EQ(values.size(), gpm_metrics().size());
  for (const GpmValue& value : values) {
    EXPECT_FALSE(value.frac);
    EXPECT_NE(value.missing_reason, "");
  }
  EXPECT_FALSE(counters->read().power_w);
  EXPECT_FALSE(counters->energy_mj());
  EXPECT_NE(counters->process_memory().missing_reason, "");
}

/// A GPU of which this process has a part, until the test ends.
class DividedGpu : public testing::Test {
 protected:
  DividedGpu() { nvml_stand_in_divide(); }
  ~DividedGpu() override { nvml_stand_in_reset(); }
};

TEST_F(DividedGpu, gives_shares_of_its_instance_and_a_reason_for_what_only_the_whole_has) {
  const auto counters = make_gpu_counters(0);
  EXPECT_EQ(counters->instance(), 3U);
  counters->begin_window();
  const auto values = counters->end_window(2.5);
  EXPECT_DOUBLE_EQ(named(values, "sm_active").frac.value(), 0.12);
  EXPECT_EQ(named(values, "graphics_active").missing_reason, "not supported by this GPU or driver");
  EXPECT_EQ(describe_gpu(0).environment.at("gpu_utilization_columns"), "reachable");
}

TEST_F(DividedGpu, counts_the_other_processes_of_its_instance_alone) {
  EXPECT_EQ(make_gpu_counters(0)->other_processes(), 0U);
  const std::vector<GpuProcess> three{{11, 1, 3}, {12, 1, 4}, {13, 1, std::nullopt}};
  EXPECT_EQ(of_instance(three, 3).size(), 2U) << "nobody knows where the last one is";
}

TEST_F(DividedGpu, names_the_question_that_its_driver_refused) {
  for (const char* function :
       {"nvmlDeviceGetHandleByUUID", "nvmlDeviceGetGpuInstanceId",
        "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", "nvmlGpmMigSampleGet"}) {
    nvml_stand_in_fail(function, 4);
    const auto counters = make_gpu_counters(0);
    counters->begin_window();
    for (const GpmValue& value : counters->end_window(1)) {
      EXPECT_FALSE(value.frac) << function;
      EXPECT_EQ(value.missing_reason, std::string(function) + ": no permission");
    }
    nvml_stand_in_reset();
    nvml_stand_in_divide();
  }
}

TEST_F(DividedGpu, is_not_read_where_cuda_does_not_say_which_part_this_is) {
  const Nvml nvml("0000:40:00.0");
  EXPECT_EQ(gpm_subject(nvml, "").why_not,
            "the GPU is divided (MIG), and CUDA does not say which part");
  EXPECT_EQ(gpm_subject(nvml, "ff").why_not, "nvmlDeviceGetHandleByUUID: not found");
}

TEST(Gpm, of_a_whole_gpu_names_no_instance) {
  EXPECT_EQ(make_gpu_counters(0)->instance(), std::nullopt);
  EXPECT_EQ(gpu_uuid(0), "00112233-4455-6677-8899-aabbccddeeff");
  EXPECT_EQ(gpu_uuid(1), "");
}

TEST(GpuCounters, read_power_clocks_temperature_and_energy_in_base_units) {
  const auto counters = make_gpu_counters(0);
  const reports::DeviceReading reading = counters->read();
  EXPECT_DOUBLE_EQ(reading.power_w.value(), 71.234);
  EXPECT_DOUBLE_EQ(reading.sm_clock_mhz.value(), 345);
  EXPECT_DOUBLE_EQ(reading.memory_clock_mhz.value(), 2619);
  EXPECT_DOUBLE_EQ(reading.temperature_c.value(), 31);
  EXPECT_EQ(reading.clock_reasons.value(), 1);
  EXPECT_EQ(counters->energy_mj().value(), 5'000'000'000'123U);
}

TEST(GpuCounters, know_what_this_process_holds) {
  const ProcessMemory memory = make_gpu_counters(0)->process_memory();
  EXPECT_EQ(memory.bytes.value_or(0), int64_t{3} << 30) << memory.missing_reason;
}

TEST(OwnMemory, is_found_by_number_or_as_the_only_process_of_a_container) {
  const std::vector<GpuProcess> two{{11, 100}, {12, std::nullopt}};
  EXPECT_EQ(own_memory(two, 11, false).bytes, 100);
  EXPECT_EQ(own_memory(two, 12, false).missing_reason,
            "the driver does not say how much a process holds");
  EXPECT_EQ(own_memory(two, 13, false).missing_reason, "the driver does not list this process");
  EXPECT_EQ(own_memory({{99, 7}}, 13, true).bytes, 7);
  EXPECT_FALSE(own_memory({{99, 7}}, 13, false).bytes);
  EXPECT_NE(own_memory(two, 13, true).missing_reason.find("2 processes"), std::string::npos);
  EXPECT_FALSE(own_memory({}, 13, true).bytes);
}

TEST(OtherProcesses, are_all_but_this_one_whose_number_a_container_does_not_know) {
  const std::vector<GpuProcess> two{{11, 100}, {12, std::nullopt}};
  EXPECT_EQ(others_of(two, 11, false), 1U);
  EXPECT_EQ(others_of(two, 13, false), 2U);
  EXPECT_EQ(others_of(two, 13, true), 1U);
  EXPECT_EQ(others_of({}, 13, true), std::nullopt);
  EXPECT_EQ(make_gpu_counters(0)->other_processes(), 1U);
  EXPECT_EQ(make_gpu_counters(1)->other_processes(), std::nullopt);
}

TEST(CudaDriver, says_which_cuda_it_runs_and_whether_it_starts) {
  const CudaDriver driver = ask_cuda_driver();
  EXPECT_EQ(driver.cuda_version, 13000);
  EXPECT_EQ(driver.init_code, 0);
  EXPECT_NE(cuda_init_error(802).find("fabric manager"), std::string::npos);
  EXPECT_EQ(cuda_init_error(4711), "CUDA error 4711");
}

}  // namespace
}  // namespace noisemark::suite
