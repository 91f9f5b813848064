#include "suite/probes/convolution_events.h"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>

namespace noisemark::suite {
namespace {

namespace kineto = torch::autograd::profiler;

std::unique_ptr<kineto::ProfilerResult> profiled(bool shapes, const std::function<void()>& work) {
  using torch::profiler::impl::ActivityType;
  const std::set<ActivityType> activities{ActivityType::CPU};
  const kineto::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO, shapes, false,
                                      false, false, false, {});
  kineto::prepareProfiler(config, activities);
  kineto::enableProfiler(config, activities);
  work();
  return kineto::disableProfiler();
}

/// The gradients of a convolution of 3 to 8 channels with stride 2.
void backward_of_a_convolution() {
  const at::Tensor x = at::randn({2, 3, 16, 12}).requires_grad_();
  const at::Tensor weight = at::randn({8, 3, 3, 5}).requires_grad_();
  at::conv2d(x, weight, {}, /*stride=*/{2, 1}, /*padding=*/1).sum().backward();
}

TEST(ConvolutionEvents, know_shapes_and_stride_of_a_convolutions_gradient) {
  const auto events = convolution_events(*profiled(true, backward_of_a_convolution));
  // Its forward pass is oneDNN's here, and no operator in which cuDNN is called.
  ASSERT_EQ(events.calls.size(), 1U);
  const ConvolutionCall& call = events.calls.front();
  EXPECT_TRUE(call.gradient);
  EXPECT_EQ(call.input, (std::vector<int64_t>{2, 3, 16, 12}));
  EXPECT_EQ(call.weight, (std::vector<int64_t>{8, 3, 3, 5}));
  EXPECT_EQ(call.stride, (std::vector<int64_t>{2, 1}));
  EXPECT_TRUE(events.kernels.empty());
}

TEST(ConvolutionEvents, of_a_profile_without_shapes_have_none) {
  const auto events = convolution_events(*profiled(false, backward_of_a_convolution));
  ASSERT_EQ(events.calls.size(), 1U);
  EXPECT_TRUE(events.calls.front().input.empty());
  EXPECT_TRUE(events.calls.front().stride.empty());
}

TEST(ConvolutionEvents, are_none_where_nothing_is_convolved) {
  const auto events = convolution_events(*profiled(true, [] {
    const at::Tensor x = at::randn({4, 4});
    (void)x.matmul(x);
  }));
  EXPECT_TRUE(events.calls.empty());
}

}  // namespace
}  // namespace noisemark::suite
