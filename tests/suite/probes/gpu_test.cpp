#include <ATen/ops/conv2d.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <c10/core/Device.h>
#include <gtest/gtest.h>

#include "suite/environment/gpu_counters.h"
#include "suite/environment/pm_sampling.h"
#include "suite/probes/operator_profile.h"
#include "tests/gpu.h"
#include "tests/suite/probes/column_calibration.h"

// The columns of a GPU under loads of which is known what they must say. Nothing else should use
// the GPU meanwhile.
namespace noisemark::suite {
namespace {

constexpr double kWindow_s = 3;

CalibrationRow measured(CalibrationLoad load, double seconds) {
  const auto counters = make_gpu_counters(0);
  const auto sampled = make_sampled_counters(0);
  return measure_loads({load}, kGpu, {*counters, *sampled}, seconds).front();
}

void expect_known(CalibrationLoad load) {
  const CalibrationRow row = measured(load, kWindow_s);
  int judged = 0;
  const auto checks = check_columns({row});
  for (const CalibrationCheck& check : checks) {
    if (!check.holds) continue;
    ++judged;
    EXPECT_TRUE(*check.holds) << check.what << ": " << check.found;
  }
  if (judged == 0) GTEST_SKIP() << checks.front().what << ": " << checks.front().found;
}

TEST(GpuColumns, say_that_an_idle_gpu_is_idle) {
  expect_known(CalibrationLoad::kIdle);
}

TEST(GpuColumns, say_that_a_copy_keeps_the_memory_busy_and_no_tensor_core) {
  expect_known(CalibrationLoad::kCopy);
}

TEST(GpuColumns, say_that_products_keep_the_tensor_cores_busy) {
  expect_known(CalibrationLoad::kProduct);
}

TEST(GpuColumns, say_that_products_in_fp16_keep_the_tensor_cores_busy) {
  expect_known(CalibrationLoad::kHalfProduct);
}

TEST(GpuColumns, say_that_products_in_fp32_keep_no_tensor_core_busy) {
  expect_known(CalibrationLoad::kFloatProduct);
}

TEST(GpuActivity, kernels_of_a_profile_fill_no_more_than_its_time) {
  const CalibrationRow row = measured(CalibrationLoad::kProduct, 1);
  for (const auto& column : row.use.columns) {
    if (column.name != "kernel_busy") continue;
    ASSERT_TRUE(column.value) << column.missing_reason;
    EXPECT_GT(*column.value, 0.5) << "products of 8192 keep a GPU busy";
    EXPECT_LE(*column.value, 1);
  }
}

TEST(GpuActivity, of_a_kernel_is_that_of_the_operator_that_launched_it) {
  const at::Tensor a = at::randn({2048, 2048}, at::device(kGpu));
  const OperatorProfile profile = profile_operators([&] { (void)a.matmul(a); }, kGpu);
  ASSERT_FALSE(profile.operators.empty());
  EXPECT_EQ(profile.operators.front().name, "aten::mm");
  EXPECT_GT(profile.operators.front().self_s, 0);
  for (const auto& row : profile.operators) EXPECT_FALSE(row.name.starts_with("cu")) << row.name;
}

TEST(GpuActivity, of_a_convolution_is_told_by_shape_direction_and_kernel) {
  const auto on_gpu = at::device(kGpu).requires_grad(true);
  const at::Tensor x = at::randn({8, 64, 32, 32}, on_gpu);
  const at::Tensor weight = at::randn({128, 64, 3, 3}, on_gpu);
  int steps = 0;
  const auto step = [&] {
    ++steps;
    at::conv2d(x, weight, {}, /*stride=*/2, /*padding=*/1).sum().backward();
  };
  const OperatorProfile profile = profile_operators(step, kGpu);
  EXPECT_EQ(steps, steps_of_profile(kGpu, ProfileOptions().steps));
  ASSERT_TRUE(profile.convolutions.measured) << profile.convolutions.missing_reason;
  bool forward = false;
  bool gradient = false;
  for (const auto& row : profile.convolutions.kernels) {
    EXPECT_EQ(row.input, (std::vector<int64_t>{8, 64, 32, 32})) << row.kernel;
    EXPECT_EQ(row.weight, (std::vector<int64_t>{128, 64, 3, 3})) << row.kernel;
    EXPECT_EQ(row.stride, (std::vector<int64_t>{2, 2})) << row.kernel;
    EXPECT_GT(row.time_s, 0) << row.kernel;
    EXPECT_GE(row.calls, 1) << row.kernel;
    (row.direction == "forward" ? forward : gradient) = true;
  }
  EXPECT_TRUE(forward && gradient) << profile.convolutions.kernels.size();
}

TEST(GpuProcessMemory, is_told_or_its_absence_explained) {
  const ProcessMemory memory = make_gpu_counters(0)->process_memory();
  EXPECT_TRUE(memory.bytes.has_value() != !memory.missing_reason.empty());
}

}  // namespace
}  // namespace noisemark::suite
