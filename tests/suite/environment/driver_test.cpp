// What is asked of NVIDIA's driver, and what becomes of its answers: beside stand-ins for its two
// libraries, because the machines that run these tests mostly have none.

#include <gtest/gtest.h>

#include "reports/sha256.h"
#include "suite/environment/graphics.h"

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

}  // namespace
}  // namespace noisemark::suite
