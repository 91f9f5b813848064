#include "suite/probes/work_recorder.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/silu.h>
#include <gtest/gtest.h>

#include <functional>

#include "suite/probes/peaks.h"

namespace noisemark::suite {
namespace {

constexpr int64_t kFloat = sizeof(float);

/// The calls of `step` that have work, on this thread.
std::vector<reports::OperatorWork> work_of(const std::function<void()>& step) {
  WorkRecorder recorder;
  recorder.on_step_begin(0);
  step();
  recorder.on_step_end(0);
  const reports::StepWork work = recorder.work();
  EXPECT_LE(work.size(), 1U);
  std::vector<reports::OperatorWork> all;
  if (work.empty()) return all;
  for (const reports::OperatorWork& one : work.front()) {
    if (one.any()) all.push_back(one);
  }
  return all;
}

reports::OperatorWork only_work_of(const std::function<void()>& step) {
  const std::vector<reports::OperatorWork> all = work_of(step);
  EXPECT_EQ(all.size(), 1U);
  return all.empty() ? reports::OperatorWork{} : all.front();
}

TEST(WorkRecorder, counts_a_product_by_its_formula_and_its_three_matrices) {
  const at::Tensor left = at::ones({3, 5});
  const at::Tensor right = at::ones({5, 7});
  const reports::OperatorWork work = only_work_of([&] { (void)at::mm(left, right); });
  EXPECT_EQ(work.name, "aten::mm");
  EXPECT_EQ(work.shapes, "[3, 5] [5, 7]");
  EXPECT_EQ(work.type, "float32");
  EXPECT_EQ(work.flops, 2 * 3 * 5 * 7);
  EXPECT_EQ(work.bytes, (3 * 5 + 5 * 7 + 3 * 7) * kFloat);
  EXPECT_EQ(work.footprint, work.bytes);
}

TEST(WorkRecorder, counts_a_composite_once_by_the_operator_that_does_its_work) {
  const at::Tensor x = at::ones({4, 8});
  const at::Tensor weight = at::ones({6, 8});
  const at::Tensor bias = at::ones({6});
  const reports::OperatorWork linear = only_work_of([&] { (void)at::linear(x, weight, bias); });
  EXPECT_EQ(linear.name, "aten::addmm");
  EXPECT_EQ(linear.flops, 2 * 4 * 8 * 6);
  const at::Tensor image = at::ones({1, 3, 8, 8});
  const at::Tensor kernel = at::ones({2, 3, 3, 3});
  const reports::OperatorWork convolution =
      only_work_of([&] { (void)at::conv2d(image, kernel, {}, 1, 1); });
  EXPECT_EQ(convolution.name, "aten::convolution");
  EXPECT_EQ(convolution.flops, 2 * 2 * 3 * 22 * 22) << "of 24 taps along 8 pixels 2 are on padding";
  EXPECT_EQ(convolution.bytes, (3 * 64 + 2 * 27 + 2 * 64) * kFloat);
}

TEST(WorkRecorder, counts_what_is_read_and_what_is_written_each_once) {
  const at::Tensor x = at::ones({10, 10});
  const at::Tensor y = at::ones({10, 10});
  const at::Tensor row = at::ones({1, 10});
  EXPECT_EQ(only_work_of([&] { (void)(x * x); }).bytes, 2 * 100 * kFloat)
      << "one input, one result";
  EXPECT_EQ(only_work_of([&] { x.add_(y); }).bytes, 3 * 100 * kFloat) << "x is read and written";
  EXPECT_EQ(only_work_of([&] { x.add_(y); }).footprint, 2 * 100 * kFloat);
  EXPECT_EQ(only_work_of([&] { x.copy_(y); }).bytes, 2 * 100 * kFloat) << "x is not read";
  EXPECT_EQ(only_work_of([&] { x.fill_(1.0F); }).bytes, 100 * kFloat);
  EXPECT_EQ(only_work_of([&] {
              x.copy_(row.expand({10, 10}));
            }).bytes,
            (100 + 10) * kFloat)
      << "a row that is repeated is read once";
}

TEST(WorkRecorder, gives_no_work_to_views_and_allocations) {
  const at::Tensor x = at::ones({10, 10});
  EXPECT_TRUE(work_of([&] {
                (void)x.view({100});
                (void)x.t().slice(0, 1, 3).unsqueeze(0);
                (void)x.detach();
                (void)at::empty({1000});
              }).empty());
}

TEST(WorkRecorder, counts_the_operations_of_an_activation_for_each_element) {
  const reports::OperatorWork silu = only_work_of([x = at::ones({100})] { (void)at::silu(x); });
  EXPECT_EQ(silu.flops, 500);
  EXPECT_EQ(silu.bytes, 200 * kFloat);
}

TEST(MemoryPeaks, are_measured_from_caches_to_memory) {
  const std::vector<reports::MemoryPeak> peaks = measure_memory_peaks(c10::kCPU, 0.1);
  ASSERT_EQ(peaks.size(), 13U);
  EXPECT_EQ(peaks.front().working_set_bytes, 64 * 1024);
  EXPECT_EQ(peaks.back().working_set_bytes, 256 * 1024 * 1024);
  for (const reports::MemoryPeak& peak : peaks) {
    EXPECT_GT(peak.bytes_per_s, 1e8) << "no machine that runs this is slower";
    EXPECT_LT(peak.bytes_per_s, 1e13) << "nor faster";
  }
}

}  // namespace
}  // namespace noisemark::suite
