#include "memopt/record/operator_times.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/device/device_clock.h"
#include "tests/gpu.h"
#include "tests/memopt/recording_sink.h"

// A GPU's own time for work that takes less than to launch it.
namespace noisemark::memopt {
namespace {

/// Returns the seconds between two marks, while the host sleeps there.
double seconds_beside_a_sleeping_host(DeviceClock& clock, bool held) {
  const at::NoGradGuard no_grad;
  at::Tensor x = at::randn({1024}).to(kGpu);
  x.mul_(1);
  clock.synchronize();
  clock.clear();
  if (held) clock.hold(1);
  const DeviceClock::Mark begin = clock.mark();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  x.mul_(1);
  const DeviceClock::Mark end = clock.mark();
  clock.release();
  clock.synchronize();
  return clock.seconds_between(begin, end);
}

TEST(GpuHold, keeps_what_the_host_does_out_of_a_time) {
  const auto clock = make_device_clock(kGpu);
  EXPECT_GE(seconds_beside_a_sleeping_host(*clock, false), 0.005);
  // One kernel of a thousand elements: microseconds, with two hundred times as much room.
  EXPECT_LT(seconds_beside_a_sleeping_host(*clock, true), 0.001);
}

TEST(GpuHold, ends_by_itself_where_the_host_waits_for_the_device) {
  const auto clock = make_device_clock(kGpu);
  const auto begin = std::chrono::steady_clock::now();
  clock->hold(0.02);
  clock->synchronize();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took.count(), 0.019);
  EXPECT_LT(took.count(), 5);
}

TEST(GpuHold, is_ended_by_the_next_one) {
  const auto clock = make_device_clock(kGpu);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 50; ++i) {
    clock->hold(1);
    (void)clock->mark();
  }
  clock->release();
  clock->synchronize();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took.count(), 1);
}

constexpr int kLaunches = 100;

/// The time of one small product, of many in a row between two marks.
double seconds_in_a_row(const at::Tensor& x, const at::Tensor& factor) {
  const at::NoGradGuard no_grad;
  const auto clock = make_device_clock(kGpu);
  at::Tensor product = x * factor;
  double seconds = 0;
  for (int run = 0; run < 2; ++run) {  // the first is not like the other
    clock->clear();
    clock->hold(1);
    const DeviceClock::Mark begin = clock->mark();
    for (int i = 0; i < kLaunches; ++i) product = x * factor;
    const DeviceClock::Mark end = clock->mark();
    clock->release();
    clock->synchronize();
    seconds = clock->seconds_between(begin, end) / kLaunches;
  }
  return seconds;
}

double median_of(std::vector<int64_t> costs) {
  std::nth_element(costs.begin(), costs.begin() + std::ssize(costs) / 2, costs.end());
  return static_cast<double>(costs[costs.size() / 2]);
}

double median_product_ns(const at::Tensor& x, const at::Tensor& factor,
                         OperatorTimes::Queue queue) {
  ModelView view;
  view.parameters = {{"factor", factor}};
  test::RecordingSink sink(view, nullptr, queue);
  at::Tensor sum;
  {
    const SavedTensorScope scope(sink);
    at::Tensor product = x;
    for (int i = 0; i < kLaunches; ++i) product = product * factor;
    sum = product.sum();
  }
  sum.backward();
  std::vector<int64_t> costs;
  for (const RecordedOperator& one : sink.take().operators) {
    if (one.name == "aten::mul") costs.push_back(one.cost_ns);
  }
  EXPECT_EQ(costs.size(), static_cast<size_t>(kLaunches));
  return median_of(costs);
}

TEST(GpuOperatorTimes, of_a_small_operator_are_not_what_it_takes_to_launch_it) {
  const at::Tensor x = at::randn({1 << 12}).to(kGpu);
  const at::Tensor factor = at::randn({1 << 12}).to(kGpu).set_requires_grad(true);
  const double in_a_row_ns = seconds_in_a_row(x, factor) * 1e9;
  (void)median_product_ns(x, factor, OperatorTimes::Queue::kAsItComes);
  const double as_it_comes = median_product_ns(x, factor, OperatorTimes::Queue::kAsItComes);
  const double held = median_product_ns(x, factor, OperatorTimes::Queue::kHeld);
  // An event of a GPU takes about as long as a kernel that does next to nothing, and stands on
  // either side.
  EXPECT_LE(held, 4 * in_a_row_ns);
  EXPECT_LT(held, as_it_comes) << "the host writes an operator down before it issues the next";
}

}  // namespace
}  // namespace noisemark::memopt
